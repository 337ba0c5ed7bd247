-- Sets how many permits there are, free and taken, once however often the
-- request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] permits that are taken {id: deadline in epoch ms}
-- ARGV[1] how many permits
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1. If more are taken, the counter of free ones is below 0 until enough
-- of them have come back.
-- If the message was refused, the answer is {that number, the error}.
local free, refused = counter(KEYS[1])
if not free then
  return refused
end
local more = tonumber(ARGV[1]) - free - redis.call('zcard', KEYS[3])
free, refused = remember('1', ARGV[3], 'incrby', KEYS[1], string.format('%.0f', more))
if not free then
  return refused
end
if more > 0 then
  return tell(1, ARGV[4], ARGV[2], string.format('%.0f', free))
end
return 1
