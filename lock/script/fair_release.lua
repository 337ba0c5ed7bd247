-- Releases a hold of a fair mutex, or gives up a place in its queue. If the lock is free then,
-- it wakes the first waiter in the queue.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the queue, a list of fields
-- KEYS[3]  how long each field may stay in the queue {field: epoch ms}
-- KEYS[4]  signs of life of the queue's waiters, except Redisson's
-- ARGV[1]  field of the hold
-- ARGV[2]  channel of the lock; ARGV[2]:field wakes the waiter of that field
-- ARGV[3]  the client's clock in epoch ms, used if the server's is unknown
-- ARGV[4]  a waiter of ours may be dead if its score is nearer than this, in ms
-- ARGV[5]  command that publishes there
-- ARGV[6+] more fields to release in the same way
--
-- Answers 1 + the number of subscribers that got the message: released; -1 the hold is gone.
-- The field has left the queue in both cases.
-- If the message was refused, the answer is {that number, the error}.
-- Full memory refuses none of its commands: either Redis never refuses them, or they follow the
-- first write.
local lock, queue, scores, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, channel, publish = ARGV[1], ARGV[2], ARGV[5]
local now, doubt = tonumber(ARGV[3]), tonumber(ARGV[4])
if not now or not doubt then
  return redis.error_reply('ERR wheellock: fair_release needs times')
end
-- Scores use the server's clock, see fair_take. A client's clock may be minutes ahead.
local time = redis.pcall('time')
if not time.err then
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local there = redis.pcall('hexists', lock, me)
local other = type(there) == 'table' -- a key of another type has lost its hold
if other and not string.find(there.err, 'WRONGTYPE', 1, true) then
  return there
end
local held = there == 1
-- Keys of another type are refused before anything is changed.
redis.call('llen', queue)
redis.call('zcard', scores)
redis.call('hlen', signs)
-- Fails here if these commands are forbidden. After a first write, full memory refuses nothing.
redis.call('zrem', scores, '')
redis.call('hdel', signs, '')
local all, leave = {me}, {}
for i = 6, #ARGV do
  all[#all + 1] = ARGV[i]
end
local seen = {}
for _, field in ipairs(all) do
  if not seen[field] and redis.call('zscore', scores, field) then
    leave[#leave + 1] = field -- the scores behind it stay, see fair_take
  end
  seen[field] = true
end
local many = #leave > 8
if many then
  many = type(redis.pcall('rpush', queue, '')) == 'number' -- is it permitted?
  if many then
    redis.call('lrem', queue, -1, '')
  end
end
if not many then
  for _, field in ipairs(leave) do
    redis.call('lrem', queue, 1, field)
  end
else -- one rewrite: each LREM walks along the queue, so many would block the server
  local ttl, gone, rest = redis.call('pttl', queue), {}, {}
  if ttl > 0 then
    redis.call('pexpire', queue, ttl) -- fails here if it is forbidden
  end
  for _, field in ipairs(leave) do
    gone[field] = true
  end
  for _, field in ipairs(redis.call('lrange', queue, 0, -1)) do
    if gone[field] then
      gone[field] = nil
    else
      rest[#rest + 1] = field
    end
  end
  redis.call('del', queue)
  for i = 1, #rest, 5000 do
    redis.call('rpush', queue, unpack(rest, i, math.min(i + 4999, #rest)))
  end
  if ttl > 0 and #rest > 0 then
    redis.call('pexpire', queue, ttl)
  end
end
-- While a slot moves to another server of a Cluster, a script must not touch a key that is gone.
local holders = other and 1 or redis.call('hlen', lock)
for _, field in ipairs(all) do
  redis.call('zrem', scores, field)
  redis.call('hdel', signs, field)
  if not other and holders > 0 then
    holders = holders - redis.call('hdel', lock, field)
  end
end
local told, refused = 0, nil
if holders == 0 then
  -- This call sweeps at most 200. The next call does the rest.
  local first, swept = redis.call('lindex', queue, 0), 0
  while first and swept < 200 and (tonumber(redis.call('zscore', scores, first) or '') or 0) <= now
    and redis.call('hexists', signs, first) == 0 do
    redis.call('lpop', queue)
    redis.call('zrem', scores, first)
    swept = swept + 1
    first = redis.call('lindex', queue, 0)
  end
  local i = 0
  while first and i < 16 do
    local heard = redis.pcall(publish, channel .. ':' .. first, '0')
    if type(heard) == 'table' then
      refused = heard.err
    else
      told = told + heard
    end
    -- A waiter of ours without a recent sign of life may be dead, so the next one is told too.
    i = i + 1
    first = redis.call('hexists', signs, first) == 1 and (tonumber(redis.call('zscore', scores, first) or '') or 0) < now + doubt
      and redis.call('lindex', queue, i)
  end
end
if redis.call('llen', queue) ~= redis.call('hlen', signs) then -- Redisson waits too
  redis.call('persist', queue)
  redis.call('persist', scores)
end
local answer = held and 1 + told or -1
if refused then
  return {answer, refused}
end
return answer
