-- Takes a fair mutex for a new hold, or puts its waiter into the queue.
--
-- A waiter's score is the time at which it leaves the queue. Redisson removes the first waiter
-- when its score is past ("sweeps" it). A waiter of Redisson's sets its score once: to the score
-- of the waiter before it, or the end of the holder's lease, plus its own wait. When it gets the
-- lock or leaves, it subtracts its wait from all scores behind it. The wait is the patience
-- (ARGV[5]) unless its caller chose another.
-- A waiter of ours renews its score with every sign of life: to now, plus the grace (ARGV[12]),
-- plus the waits of Redisson's waiters ahead. So Redisson never sweeps a living waiter of ours. It
-- sweeps a dead one after the waiters ahead have had their turn and the grace is over.
-- The wait of a waiter of Redisson's is stored nowhere. It is the distance to the score of
-- Redisson's waiter before. For the first waiter the distance becomes known when the next one
-- comes. Before that, the wait is its score minus the clock, or the patience if that is possible.
-- So a wait above the patience is estimated too short if the first waiter has been there for
-- longer than the lease that it found.
-- Waiters of ours neither raise nor lower the scores behind them. While one of ours lives, every
-- waiter of Redisson's behind it keeps a score of at least its wait, or the patience, above it.
--
-- A waiter keeps its field when a request gets no answer, so a copy of an earlier request may come
-- late. The copy changes nothing, because its sign has no higher number than the waiter's latest.
-- After the waiter has released the lock, nothing in Redis refuses a copy. So the client treats
-- the field as owed until no copy can come.
--
-- KEYS[1]  the lock's hash {field: count}
-- KEYS[2]  the queue, a list of fields, first come first
-- KEYS[3]  how long each field may stay in the queue {field: epoch ms}, as Redisson counts
-- KEYS[4]  signs of life of the queue's waiters, except Redisson's {field: text};
--          the text is ARGV[6] with the time it came: 7@1790000000000/2000
-- KEYS[5]  the fencing-token counter
-- ARGV[1]  field of the hold, never used before by another
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  least token: the client's clock, or 1, see mint.lua
-- ARGV[4]  the client's clock in epoch ms, used if TIME is refused
-- ARGV[5]  how long Redisson waits for the first in the queue, in ms
-- ARGV[6]  a sign of life: a rising number and more text; "": do not enter the queue
-- ARGV[7]  a field that has been silent at the head of the queue for too long
-- ARGV[8]  its latest known sign of life; "": there is no such field
-- ARGV[9]  shortest TTL of the queue after a sign of life, in ms
-- ARGV[10] channel of the lock; ARGV[10]:field wakes the waiter of that field
-- ARGV[11] command that publishes there
-- ARGV[12] grace: a sign of life moves the score this far ahead of the clock, in ms
-- ARGV[13] how many of the following fields are earlier ones of the same waiter, which takes
--          over their place
-- ARGV[14+] earlier fields: first these, then fields of the client's attempts with an unknown
--          outcome
--
-- Answers {1, token} acquired, or {0, pttl, first, sign, foreign}:
--   pttl     TTL of the lock in ms; -1: no TTL, -2: the lock is free
--   first    the first field in the queue, "" if there is none, cut at 1,024 bytes
--   sign     the sign of life of that field, in the same form
--   foreign  1 if another library holds the lock
local lock, queue, scores, signs, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, lease, floor, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), clock or tonumber(ARGV[4])
local patience, mySign, silent, silentSign = tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]
local life, channel, publish, grace, earlierCount = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13])
local day = 24 * 60 * 60 * 1000 -- in ms
if not lease or lease < 1 or not floor or not now or not patience or not grace then
  return redis.error_reply('ERR wheellock: fair_take needs a lease of at least 1 ms, a least token and a time')
end
-- Keys of another type are refused before anything is written.
redis.call('llen', queue)
redis.call('zcard', scores)
redis.call('hlen', signs)
local refused = exhausted(counter)
if refused then
  return refused
end
-- errorIfForbidden calls a command that changes nothing here. It returns the error if the command is
-- forbidden.
local function errorIfForbidden(...)
  local answer = redis.pcall(...)
  return type(answer) == 'table' and answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true) and answer or nil
end
-- A place in the queue consists of three keys. Without these commands it would stay in some.
refused = errorIfForbidden('zrem', scores, '') or errorIfForbidden('hdel', signs, '')
if not refused and (#ARGV >= 14 or silentSign ~= '') then
  refused = errorIfForbidden('lrem', counter, 1, '')
end
if not refused and earlierCount ~= 0 then
  refused = errorIfForbidden('linsert', counter, 'before', '', '') or errorIfForbidden('lrange', queue, 0, 0)
end
if refused then
  return refused
end
local foreignHolder, answer = 0, redis.pcall('hexists', lock, me)
if type(answer) == 'table' then
  if not foreign(lock) then
    return answer
  end
  foreignHolder = 1 -- its waiters use the queue as usual
end
-- leave removes a field of ours from the queue. Such a field has not raised the scores behind it,
-- so they stay.
local function leave(field)
  redis.call('hdel', signs, field)
  if redis.call('zrem', scores, field) == 1 then
    redis.call('lrem', queue, 1, field)
  end
end
-- sign returns the sign of life with this time.
local function sign(at)
  return (string.gsub(mySign, '^%d*', string.format('%%0@%.0f', at), 1))
end
-- timeOf returns the time of a sign of life.
local function timeOf(text)
  return tonumber(string.match(text or '', '^%d*@(%d+)') or '')
end
-- refuse returns the answer for a lock that was not acquired.
local function refuse(pttl, first)
  local sign = first and redis.call('hget', signs, first) or ''
  return {0, pttl, string.sub(first or '', 1, 1024), string.sub(sign, 1, 1024), foreignHolder}
end
local number = tonumber(string.match(mySign, '^%d+') or '')
local last = number and tonumber(string.match(redis.call('hget', signs, me) or '', '^%d+') or '')
if last and number <= last then
  return refuse(redis.call('pttl', lock), redis.call('lindex', queue, 0))
end
if earlierCount > 0 then
  -- The waiter's earlier requests may have arrived in any order, and several may have a place. The
  -- waiter keeps the foremost.
  local earlier = {}
  for i = 14, 13 + earlierCount do
    earlier[ARGV[i]] = true
  end
  for _, old in ipairs(redis.call('lrange', queue, 0, -1)) do
    local score = earlier[old] and redis.call('zscore', scores, old)
    if old == me then
      break
    elseif score then
      local last = sign(timeOf(redis.call('hget', signs, old)) or now)
      local new = redis.call('zadd', scores, score, me) == 1
      local result = redis.pcall('hset', signs, me, last)
      if type(result) == 'table' then
        if new then
          redis.call('zrem', scores, me)
        end
        return result
      end
      redis.call('lrem', queue, 1, me) -- its own place is behind this one
      redis.call('linsert', queue, 'before', old, me)
      redis.call('lrem', queue, 1, old)
      redis.call('zrem', scores, old)
      redis.call('hdel', signs, old)
      break
    end
  end
end
for i = 14, #ARGV do
  local old = ARGV[i]
  if foreignHolder == 0 then
    if i < 14 + earlierCount and redis.call('hexists', lock, old) == 1 then
      redis.call('hset', lock, me, '1')
    end
    redis.call('hdel', lock, old)
  end
  leave(old)
end
local isHeldByMe = foreignHolder == 0 and redis.call('hexists', lock, me) == 1
-- This call sweeps at most 200. The next call does the rest.
local first, woken, swept = redis.call('lindex', queue, 0), false, 0
while first and swept < 200 do
  local score = tonumber(redis.call('zscore', scores, first) or '')
  if not score or score <= now and redis.call('hexists', signs, first) == 0 then
    redis.call('lpop', queue)
    redis.call('zrem', scores, first)
    redis.call('hdel', signs, first)
  elseif silentSign ~= '' and first == silent and redis.call('hget', signs, first) == silentSign then
    leave(first)
  else
    break
  end
  woken, swept = true, swept + 1
  first = redis.call('lindex', queue, 0)
end
local pttl = redis.call('pttl', lock)
if isHeldByMe or pttl == -2 and (not first or first == me) then
  refused = first and errorIfForbidden('lrem', counter, 1, '')
  if refused then
    return refused
  end
  local token = mint(counter, floor, 0)
  redis.call('hset', lock, me, '1')
  local result = redis.pcall('pttl', lock)
  if type(result) == 'number' and result < lease then
    result = redis.pcall('pexpire', lock, lease)
  end
  if type(result) == 'table' then -- no hold without an end
    if not isHeldByMe then
      redis.call('hdel', lock, me)
    end
    leave(me)
    return result
  end
  if first and redis.call('hlen', signs) ~= redis.call('llen', queue) then
    redis.pcall('persist', queue) -- Redisson waits too, and gives the queue no new end, see setEnd
    redis.pcall('persist', scores)
  end
  if not isHeldByMe then
    if first then
      redis.call('lrem', queue, 1, me)
    end
    redis.call('zrem', scores, me)
    redis.call('hdel', signs, me)
  end
  return {1, token}
end
-- stand writes my sign of life, and puts me at the end of the queue if I am not in it. It returns an
-- error if the server refuses a place.
local function stand(isScored)
  redis.call('hset', signs, me, sign(now))
  if not isScored or not first then -- a DEL of the queue may have left the score
    local result = redis.pcall('rpush', queue, me)
    if type(result) == 'table' then
      redis.call('hdel', signs, me)
      return result
    end
    first = first or me
  end
end
-- readQueue returns me and the last waiter, or from time to time the whole queue, the longer it is the
-- less often: a swept waiter subtracts nothing from my score. A long queue is not read if all its
-- waiters are ours, see fair_sign. The last waiter is always read: a new waiter of Redisson's adds to
-- its score, and sleeps for ever if that is in the past.
local function readQueue(length)
  -- A waiter's signs here may all have odd numbers, because every second one was for fair_sign.
  local isWhole = math.ceil((number or 0) / 2) % math.ceil(length / 16) == 0 and (length <= 16 or length ~= redis.call('hlen', signs)
    or redis.call('zcount', scores, now + patience / 2, '+inf') > 0)
  if not isWhole then
    return {me, redis.call('lindex', queue, -1)}, false
  end
  local order = redis.call('lrange', queue, 0, -1)
  for _, field in ipairs(order) do
    if field == me then
      return order, true
    end
  end
  redis.call('rpush', queue, me) -- somebody has removed my place and left my score
  order[#order + 1] = me
  return order, true
end
-- writeScores sets my score to soonest plus span, and raises the scores of Redisson's waiters behind
-- me that are too low. span is the sum of the waits of Redisson's waiters ahead, which they will
-- subtract from my score. It is found anew if order is the whole queue. The function returns an error,
-- or nil and how many waiters of order are ours.
local function writeScores(order, isWhole, soonest, span, isScored)
  local signed, ahead, least = 0, 0, nil
  local base, isRedissons = now + math.max(pttl, 0), false -- of the waiter before
  for _, field in ipairs(order) do
    local ours = redis.call('hexists', signs, field)
    signed = signed + ours
    if field == me then
      if isWhole then
        span = ahead > 0 and math.max(isScored and span or 0, ahead) or 0
      end
      least, isRedissons = soonest + span, false
      local result = redis.pcall('zadd', scores, string.format('%.0f', least), me)
      if type(result) == 'table' then
        if not isScored then
          redis.call('lrem', queue, 1, me)
          redis.call('hdel', signs, me)
        end
        return result
      end
    else
      local score, wait = tonumber(redis.call('zscore', scores, field) or '') or 0, 0
      if ours == 0 then
        wait = score - base
        if not (wait > 0 and wait < day) or not isRedissons and (least or wait < patience) then
          wait = patience
        elseif field == first then
          wait = score - now -- the lease that it found is unknown, and a wait that is too long costs only time
        end
      end
      if not least then
        ahead = ahead + wait
      else
        least = least + wait
        if score < least then
          redis.call('zadd', scores, string.format('%.0f', least), field)
        end
      end
      base, isRedissons = score, ours == 0
    end
  end
  return nil, signed
end
-- sweepSigns removes the signs of waiters that Redisson swept, if there may be any.
local function sweepSigns(signed)
  if redis.call('hlen', signs) == signed then
    return
  end
  local marks = redis.call('hgetall', signs)
  for i = 1, #marks, 2 do
    if not redis.call('zscore', scores, marks[i]) then
      redis.call('hdel', signs, marks[i])
    end
  end
end
-- setEnd makes a queue of ours expire when all its waiters are dead. A queue with Redisson's waiters
-- must not. No TTL is lowered, because the next sign of another waiter may come later than mine.
local function setEnd()
  local ours = redis.call('hlen', signs) == redis.call('llen', queue)
  for i = 2, 4 do
    local result = 0
    if i < 4 and not ours then
      redis.call('persist', KEYS[i])
    elseif redis.call('pttl', KEYS[i]) < tonumber(life) then
      result = redis.pcall('pexpire', KEYS[i], life)
    end
    if type(result) == 'table' then -- no place without an end
      leave(me)
      return result
    end
  end
end
if mySign ~= '' then
  local score = tonumber(redis.call('zscore', scores, me) or '')
  local isScored = score ~= nil
  if not isScored then
    redis.call('lrange', queue, 0, 0) -- fails here if LRANGE is forbidden: nothing may fail between a place and its score
  end
  local before = isScored and timeOf(redis.call('hget', signs, me)) or now
  local failure = stand(isScored)
  if failure then
    return failure
  end
  local length, time = redis.call('llen', queue), now
  if before > now and before - now < patience / 2 then
    time = before -- this request is late, or this clock is behind the last sign's clock
  end
  -- Each waiter that left has subtracted its wait, so span is the part of my score above the grace at my
  -- last sign. For a new waiter it is estimated from the queue.
  local span = math.max(length - redis.call('hlen', signs), 0) * patience
  if isScored then
    span = math.max(score - before - grace, 0)
  end
  local order, isWhole = readQueue(length)
  local signed
  failure, signed = writeScores(order, isWhole, time + grace, span, isScored)
  if failure then
    return failure
  end
  if isWhole then
    sweepSigns(signed)
  end
  failure = setEnd()
  if failure then
    return failure
  end
end
if woken and pttl == -2 then
  local i, told = 0, first
  while told and i < 16 do
    if told ~= me then
      redis.pcall(publish, channel .. ':' .. told, '0')
    end
    -- A waiter of ours without a recent sign of life may be dead, so the next one is told too.
    i = i + 1
    told = redis.call('hexists', signs, told) == 1 and (tonumber(redis.call('zscore', scores, told) or '') or 0) < now + grace / 2
      and redis.call('lindex', queue, i)
  end
end
return refuse(pttl, first)
