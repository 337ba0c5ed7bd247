-- Sets how many permits there are, free and taken, once however often the
-- request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] the taken permits {id: deadline in epoch ms}
-- ARGV[1] how many permits
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1. If more permits are taken than that, the counter of free ones stays below 0 until
-- enough of them are released.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, resultKey, taken = KEYS[1], KEYS[2], KEYS[3]
local total, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local free, refused = counter(semaphore)
if not free then
  return refused
end
local more = tonumber(total) - free - redis.call('zcard', taken)
free, refused = remember('1', keepFor, 'incrby', semaphore, string.format('%.0f', more))
if not free then
  return refused
end
if more > 0 then
  return tell(1, publish, channel, string.format('%.0f', free))
end
return 1
