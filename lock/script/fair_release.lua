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
-- While a slot moves to another server of a Cluster, a script must not touch a key that is gone. So
-- it counts what is left. Keys of another type are refused here, before anything is changed.
local length, scored, signed = redis.call('llen', queue), redis.call('zcard', scores), redis.call('hlen', signs)
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
local many = #leave > 8 and length > 0
if many then -- are RPUSH and LPOP permitted?
  many = string.find(redis.pcall('lpop', scores).err, 'WRONGTYPE', 1, true) and type(redis.pcall('rpush', queue, '')) == 'number'
  if many then
    redis.call('lrem', queue, -1, '')
  end
end
if not many then
  for _, field in ipairs(leave) do
    if length > 0 then
      length = length - redis.call('lrem', queue, 1, field)
    end
  end
else -- one rewrite: each LREM walks along the queue, so many would block the server
  local gone, rest = {}, {}
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
  -- The new queue grows behind the old one, so the key and its TTL stay.
  for i = 1, #rest, 5000 do
    redis.call('rpush', queue, unpack(rest, i, math.min(i + 4999, #rest)))
  end
  if redis.pcall('lpop', queue, length).err then -- before Redis 6.2, LPOP pops one
    for _ = 1, length do
      redis.call('lpop', queue)
    end
  end
  length = #rest
end
local holders = other and 1 or redis.call('hlen', lock)
for _, field in ipairs(all) do
  if scored > 0 then
    scored = scored - redis.call('zrem', scores, field)
  end
  if signed > 0 then
    signed = signed - redis.call('hdel', signs, field)
  end
  if not other and holders > 0 then
    holders = holders - redis.call('hdel', lock, field)
  end
end
-- place returns the field at a place of the queue, 0 the first, its score and whether it has a sign.
local function place(i)
  if i >= length then
    return nil
  end
  local field = redis.call('lindex', queue, i)
  local score = scored > 0 and tonumber(redis.call('zscore', scores, field) or '') or 0
  return field, score, signed > 0 and redis.call('hexists', signs, field) == 1
end
local told, refused = 0, nil
if holders == 0 then
  local first, score, ours = place(0)
  for _ = 1, 200 do -- the next call sweeps the rest
    if not first or ours or score > now then
      break
    end
    redis.call('lpop', queue)
    length = length - 1
    if scored > 0 then
      scored = scored - redis.call('zrem', scores, first)
    end
    first, score, ours = place(0)
  end
  for i = 1, 16 do
    if not first then
      break
    end
    local heard = redis.pcall(publish, channel .. ':' .. first, '0')
    if type(heard) == 'table' then
      refused = heard.err
    else
      told = told + heard
    end
    -- A waiter of ours without a recent sign of life may be dead, so the next one is told too.
    if not ours or score >= now + doubt then
      break
    end
    first, score, ours = place(i)
  end
end
if length ~= signed then -- Redisson waits too
  if length > 0 then
    redis.call('persist', queue)
  end
  if scored > 0 then
    redis.call('persist', scores)
  end
end
local answer = held and 1 + told or -1
if refused then
  return {answer, refused}
end
return answer
