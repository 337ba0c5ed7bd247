-- Undoes a take: its permits are free again, and a copy of the take that arrives later takes
-- nothing. A semaphore that was deleted meanwhile stays deleted.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the take's result
-- ARGV[1] channel on which free permits are published
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers how many permits the take had got.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, resultKey = KEYS[1], KEYS[2]
local channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3]
local taken, text = redis.call('get', resultKey) or '0', nil
if taken ~= '0' then
  local n
  n, text = counter(semaphore)
  if not n then
    return text
  end
end
-- Keep the take's result for longer. After a first write, full memory refuses nothing.
redis.pcall('pexpire', resultKey, keepFor)
local free = text and redis.call('incrby', semaphore, taken)
local never = redis.pcall('set', resultKey, '0', 'px', keepFor)
if never.err then -- without a result, a copy of this request would free the permits again
  if free then
    redis.call('incrby', semaphore, '-' .. taken)
  end
  return never
end
if free then
  return tell(tonumber(taken), publish, channel, string.format('%.0f', free))
end
return tonumber(taken)
