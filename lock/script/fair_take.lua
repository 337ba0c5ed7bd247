-- Takes a fair mutex for a new hold, or stands in its queue.
--
-- Redisson sweeps the first in the queue when its score is past. It sets a score
-- once: its own wait after that of the one before, or after the holder's lease. It takes
-- its wait from all scores behind it when it has got the lock or left. The wait is ARGV[5],
-- if its caller did not say another. A score of ours is renewed with each sign of life:
-- it is ARGV[12] from now, and more by the waits of Redisson's ahead. So one that lives
-- is never swept, and one that has died is when those ahead have had their turn and
-- ARGV[12] is over. Nobody says how long a wait is: it is the distance to the score of
-- Redisson's before. That of the first is known from when the next one came. Before
-- that it is what its score is ahead of the clock, or ARGV[5] if that may be it. So a
-- longer wait is taken for too short if the first has been there for longer than the
-- lease that it found.
-- Ours add nothing to the scores behind them and take nothing from them. While one
-- of ours lives, each of Redisson's behind it keeps its wait, or ARGV[5], more than it has.
--
-- A waiter keeps its field when a request is not answered, so a copy of an earlier request
-- may come late. The number of its sign is not above that of the sign that the waiter has
-- given since. So the copy changes nothing. Once the waiter has had the lock and released it,
-- nothing refuses a copy: the client owes the field until no copy can come.
--
-- KEYS[1]  the lock's hash {field: count}
-- KEYS[2]  the queue, a list of fields, first come first
-- KEYS[3]  until when each may stand there {field: epoch ms}, as Redisson counts
-- KEYS[4]  signs of life of those in the queue that are not Redisson's {field: text};
--          the text is ARGV[6], and when it came: 7@1790000000000/2000
-- KEYS[5]  the fencing-token counter
-- ARGV[1]  field of the hold, never used before by another
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  least token: what the client's clock says, or 1, see mint.lua
-- ARGV[4]  the client's clock in epoch ms. The server's stands in its place where it is
--          known
-- ARGV[5]  how long Redisson waits for the first in the queue, in ms
-- ARGV[6]  a sign of life, a number that rises and more; "": do not stand in the queue
-- ARGV[7]  a field that was the first in the queue for long
-- ARGV[8]  with this sign of life; "": nobody was
-- ARGV[9]  how long the queue lives at least without a sign of life, in ms
-- ARGV[10] channel of the lock; ARGV[10]:field wakes the waiter of that field
-- ARGV[11] command that publishes there
-- ARGV[12] how far ahead of the clock a score is with each sign of life, in ms
-- ARGV[13] how many of the following are earlier fields of this very waiter, whose
--          place it takes; the others are fields whose client never learned what
--          became of them
-- ARGV[14+] those fields
--
-- Answers {1, token} acquired; {0, pttl, first, sign, foreign} not: pttl in ms of
-- who holds it (-1: none, -2: nobody), the first in the queue and its sign of life
-- ("" if there is none), each at most 1,024 bytes of it, 1 if another library holds it.
local lock, queue, scores, signs, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, lease, floor, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), clock or tonumber(ARGV[4])
local patience, mySign, silent, silentSign = tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]
local life, channel, publish, grace, heirs = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13])
if not lease or lease < 1 or not floor or not now or not patience or not grace then
  return redis.error_reply('ERR wheellock: fair_take needs a lease of at least 1 ms, a least token and a time')
end
-- Somebody else's key is refused before anything is written.
redis.call('llen', queue)
redis.call('zcard', scores)
redis.call('hlen', signs)
local refused = exhausted(counter)
if refused then
  return refused
end
-- may returns the error of a command that may not be called. Where it is tried, it does nothing.
local function may(...)
  local answer = redis.pcall(...)
  return type(answer) == 'table' and answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true) and answer or nil
end
-- A place is in three keys. Without one of these it would be taken out of some of them.
refused = may('zrem', scores, '') or may('hdel', signs, '')
if not refused and (#ARGV >= 14 or silentSign ~= '') then
  refused = may('lrem', counter, 1, '')
end
if not refused and heirs ~= 0 then
  refused = may('linsert', counter, 'before', '', '') or may('lrange', queue, 0, 0)
end
if refused then
  return refused
end
local other, mine = 0, redis.pcall('hexists', lock, me)
if type(mine) == 'table' then
  if not foreign(lock) then
    return mine
  end
  other = 1 -- who waits for it stands in the queue as ever
end
-- leave takes a field out of the queue. It added nothing to the scores of those
-- behind, so they stay.
local function leave(field)
  redis.call('hdel', signs, field)
  if redis.call('zrem', scores, field) == 1 then
    redis.call('lrem', queue, 1, field)
  end
end
-- sign is the sign of life with its time, and at that time.
local function sign(at)
  return (string.gsub(mySign, '^%d*', string.format('%%0@%.0f', at), 1))
end
-- at is when a sign of life came.
local function at(text)
  return tonumber(string.match(text or '', '^%d*@(%d+)') or '')
end
-- refuse returns the answer that the lock was not acquired.
local function refuse(pttl, first)
  local sign = first and redis.call('hget', signs, first) or ''
  return {0, pttl, string.sub(first or '', 1, 1024), string.sub(sign, 1, 1024), other}
end
local number = tonumber(string.match(mySign, '^%d+') or '')
local last = number and tonumber(string.match(redis.call('hget', signs, me) or '', '^%d+') or '')
if last and number <= last then
  return refuse(redis.call('pttl', lock), redis.call('lindex', queue, 0))
end
if heirs > 0 then
  -- The waiter's earlier requests may have arrived in any order, some of them
  -- after others had taken their place: it keeps the foremost.
  local earlier = {}
  for i = 14, 13 + heirs do
    earlier[ARGV[i]] = true
  end
  for _, old in ipairs(redis.call('lrange', queue, 0, -1)) do
    local score = earlier[old] and redis.call('zscore', scores, old)
    if old == me then
      break
    elseif score then
      local last = sign(at(redis.call('hget', signs, old)) or now)
      local new = redis.call('zadd', scores, score, me) == 1
      local set = redis.pcall('hset', signs, me, last)
      if type(set) == 'table' then
        if new then
          redis.call('zrem', scores, me)
        end
        return set
      end
      redis.call('lrem', queue, 1, me) -- what it has itself is behind this one
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
  if other == 0 then
    if i < 14 + heirs and redis.call('hexists', lock, old) == 1 then
      redis.call('hset', lock, me, '1')
    end
    redis.call('hdel', lock, old)
  end
  leave(old)
end
mine = other == 0 and redis.call('hexists', lock, me) == 1
-- What it does here is bounded: what is left the next call does.
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
if mine or pttl == -2 and (not first or first == me) then
  refused = first and may('lrem', counter, 1, '')
  if refused then
    return refused
  end
  local token = mint(counter, floor, 0)
  redis.call('hset', lock, me, '1')
  local set = redis.pcall('pttl', lock)
  if type(set) == 'number' and set < lease then
    set = redis.pcall('pexpire', lock, lease)
  end
  if type(set) == 'table' then -- nobody holds a lock that would never end
    if not mine then
      redis.call('hdel', lock, me)
    end
    leave(me)
    return set
  end
  if not mine then
    if first then
      redis.call('lrem', queue, 1, me)
    end
    redis.call('zrem', scores, me)
    redis.call('hdel', signs, me)
  end
  return {1, token}
end
if mySign ~= '' then
  local score = tonumber(redis.call('zscore', scores, me) or '')
  if not score then
    redis.call('lrange', queue, 0, 0) -- may it be called? Nothing below is refused between a place and its score
  end
  local before = score and at(redis.call('hget', signs, me)) or now
  redis.call('hset', signs, me, sign(now))
  if not score or not first then -- a score without a queue is what somebody's DEL leaves
    local stands = redis.pcall('rpush', queue, me)
    if type(stands) == 'table' then
      redis.call('hdel', signs, me)
      return stands
    end
    first = first or me
  end
  -- What those of Redisson's ahead take from my score. Each that went has taken its
  -- own, so it is what was more than grace at my last sign. If I am new, it is found in
  -- the queue. One that was swept takes nothing; so now and then, the more seldom the
  -- longer it is, the whole queue is looked through. A long queue is not if all of it are
  -- ours, see fair_sign. The last of it always is: a newcomer of Redisson's builds on its
  -- score, and sleeps for ever if that is in the past.
  local length, signed = redis.call('llen', queue), 0
  local time = now
  if before > now and before - now < patience / 2 then
    time = before -- this request is late, or the clock of one ahead is before mine
  end
  local span = math.max(length - redis.call('hlen', signs), 0) * patience
  if score then
    span = math.max(score - before - grace, 0)
  end
  local order = {me, redis.call('lindex', queue, -1)}
  local whole = (number or 0) % math.ceil(length / 16) == 0 and (length <= 16 or length ~= redis.call('hlen', signs)
    or redis.call('zcount', scores, now + patience / 2, '+inf') > 0)
  if whole then
    order = redis.call('lrange', queue, 0, -1)
  end
  -- base is the score of the one before, java whether that is Redisson's.
  local least, ahead, base, java = nil, 0, now + math.max(pttl, 0), false
  for _, other in ipairs(order) do
    local ours = redis.call('hexists', signs, other)
    signed = signed + ours
    if other == me then
      if whole then
        span = ahead > 0 and math.max(score and span or 0, ahead) or 0
      end
      least = time + grace + span
      local set = redis.pcall('zadd', scores, string.format('%.0f', least), me)
      if type(set) == 'table' then
        if not score then
          redis.call('lrem', queue, 1, me)
          redis.call('hdel', signs, me)
        end
        return set
      end
      java = false
    else
      local its = tonumber(redis.call('zscore', scores, other) or '') or 0
      local wait = 0
      if ours == 0 then
        wait = its - base
        if not (wait > 0 and wait < 86400000) or not java and (least or wait < patience) then
          wait = patience
        elseif other == first then
          wait = its - now -- the lease that it found is not known, and one that is too long costs only time
        end
      end
      if not least then
        ahead = ahead + wait
      else
        least = least + wait
        if its < least then
          redis.call('zadd', scores, string.format('%.0f', least), other)
        end
      end
      base, java = its, ours == 0
    end
  end
  if whole and redis.call('hlen', signs) ~= signed then
    local marks = redis.call('hgetall', signs)
    for i = 1, #marks, 2 do
      if not redis.call('zscore', scores, marks[i]) then
        redis.call('hdel', signs, marks[i]) -- Redisson swept it
      end
    end
  end
  -- A queue of the dead ends by itself; one in which Redisson stands may not.
  -- The next sign of another may be due later than mine: no TTL is lowered.
  local ours = redis.call('hlen', signs) == redis.call('llen', queue)
  for i = 2, 4 do
    local set = 0
    if i < 4 and not ours then
      redis.call('persist', KEYS[i])
    elseif redis.call('pttl', KEYS[i]) < tonumber(life) then
      set = redis.pcall('pexpire', KEYS[i], life)
    end
    if type(set) == 'table' then -- a place that would never end
      leave(me)
      return set
    end
  end
end
if woken and pttl == -2 then
  local i, told = 0, first
  while told and i < 16 do
    if told ~= me then
      redis.pcall(publish, channel .. ':' .. told, '0')
    end
    -- One of ours that has given no sign for long may be dead: tell the next, too.
    i = i + 1
    told = redis.call('hexists', signs, told) == 1 and (tonumber(redis.call('zscore', scores, told) or '') or 0) < now + grace / 2
      and redis.call('lindex', queue, i)
  end
end
return refuse(pttl, first)
