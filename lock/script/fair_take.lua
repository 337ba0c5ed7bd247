-- Takes a fair mutex for a new hold, or stands in its queue.
--
-- KEYS[1]  the lock's hash {field: count}
-- KEYS[2]  the queue, a list of fields, first come first
-- KEYS[3]  until when each may stand there {field: epoch ms}, as Redisson counts
-- KEYS[4]  signs of life of those in the queue that are not Redisson's {field: text}
-- KEYS[5]  the fencing-token counter
-- ARGV[1]  field of the hold, never used before by another
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  least token: wall seconds * 2^20
-- ARGV[4]  the client's clock in epoch ms
-- ARGV[5]  how long the first in the queue may be waited for, in ms
-- ARGV[6]  a sign of life, other than the last; "": do not stand in the queue
-- ARGV[7]  a field that was the first in the queue for long
-- ARGV[8]  with this sign of life; "": nobody was
-- ARGV[9]  how long the queue lives without a sign of life, in ms
-- ARGV[10] channel of the lock; ARGV[10]:field wakes the waiter of that field
-- ARGV[11] command that publishes there
-- ARGV[12] how many of the following are earlier fields of this very waiter, whose
--          place it takes; the others are fields whose client never learned what
--          became of them
-- ARGV[13+] those fields
--
-- Answers {1, token} acquired; {0, pttl, first, sign} not: pttl in ms of who
-- holds it (-1: none, -2: nobody), the first in the queue and its sign of life
-- ("" if there is none).
local lock, queue, scores, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, lease, floor, now, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if not lease or lease < 1 or not floor or not now or not patience then
  return redis.error_reply('ERR wheellock: fair_take needs a lease of at least 1 ms, a least token and a time')
end
-- Somebody else's key is refused before anything is written.
redis.call('llen', queue)
redis.call('zcard', scores)
redis.call('hlen', signs)
-- leave takes a field out of the queue; those behind wait for one less.
local function leave(field)
  redis.call('hdel', signs, field)
  if not redis.call('zscore', scores, field) then
    return
  end
  redis.call('zrem', scores, field)
  local behind = false
  for _, other in ipairs(redis.call('lrange', queue, 0, -1)) do
    if behind then
      redis.call('zincrby', scores, -patience, other)
    end
    behind = behind or other == field
  end
  redis.call('lrem', queue, 1, field)
end
local heirs = tonumber(ARGV[12])
for i = 13, #ARGV do
  local old = ARGV[i]
  if i < 13 + heirs then
    local score = redis.call('zscore', scores, old)
    if score and not redis.call('zscore', scores, me) then
      redis.call('linsert', queue, 'before', old, me)
      redis.call('lrem', queue, 1, old)
      redis.call('zadd', scores, score, me)
      redis.call('zrem', scores, old)
      redis.call('hset', signs, me, ARGV[6])
      redis.call('hdel', signs, old)
    end
    if redis.call('hexists', lock, old) == 1 then
      redis.call('hset', lock, me, '1')
    end
  end
  redis.call('hdel', lock, old)
  leave(old)
end
local mine = redis.call('hexists', lock, me) == 1
local first, woken = redis.call('lindex', queue, 0), false
while first do
  local score = tonumber(redis.call('zscore', scores, first) or '')
  if not score or score <= now and redis.call('hexists', signs, first) == 0 then
    redis.call('lpop', queue)
    redis.call('zrem', scores, first)
    redis.call('hdel', signs, first)
  elseif ARGV[8] ~= '' and first == ARGV[7] and redis.call('hget', signs, first) == ARGV[8] then
    leave(first)
  else
    break
  end
  woken = true
  first = redis.call('lindex', queue, 0)
end
local pttl = redis.call('pttl', lock)
if mine or pttl == -2 and (not first or first == me) then
  local last = tonumber(redis.call('get', KEYS[5]) or '0') or 0
  if not (last < 9007199254740990) then
    return redis.error_reply('ERR wheellock: the token counter ' .. KEYS[5] .. ' is past 2^53; delete it')
  end
  local token = math.max(math.floor(last) + 1, floor)
  redis.call('set', KEYS[5], string.format('%.0f', token))
  redis.call('hset', lock, me, '1')
  if redis.call('pttl', lock) < lease then
    redis.call('pexpire', lock, lease)
  end
  if not mine then
    redis.call('lrem', queue, 1, me)
    redis.call('zrem', scores, me)
    redis.call('hdel', signs, me)
    -- One less to be waited for, as Redisson counts.
    for _, other in ipairs(redis.call('zrange', scores, 0, -1)) do
      redis.call('zincrby', scores, -patience, other)
    end
  end
  return {1, token}
end
if ARGV[6] ~= '' then
  local mine = tonumber(redis.call('zscore', scores, me) or '')
  if not mine then
    local since = redis.call('lindex', queue, -1)
    local score = math.max(pttl, 0) + now
    if since then
      score = tonumber(redis.call('zscore', scores, since) or '') or score
    end
    redis.call('zadd', scores, string.format('%.0f', score + patience), me)
    redis.call('rpush', queue, me)
    first = first or me
  elseif mine - now < patience / 2 then
    redis.call('zadd', scores, string.format('%.0f', now + patience), me) -- the holder takes its time
  end
  redis.call('hset', signs, me, ARGV[6])
  -- A queue of the dead ends by itself; one in which Redisson stands may not.
  redis.call('pexpire', signs, ARGV[9])
  for i = 2, 3 do
    if redis.call('hlen', signs) == redis.call('llen', queue) then
      redis.call('pexpire', KEYS[i], ARGV[9])
    else
      redis.call('persist', KEYS[i])
    end
  end
end
if woken and pttl == -2 and first and first ~= me then
  redis.pcall(ARGV[11], ARGV[10] .. ':' .. first, '0')
end
return {0, pttl, first or '', first and redis.call('hget', signs, first) or ''}
