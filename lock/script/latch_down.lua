-- Counts a latch down by one, once however often the request arrives; at zero
-- the latch opens.
--
-- KEYS[1] the latch's count; there is none while it is open
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the latch's channel
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers the count that is left; 0 also if the latch was open.
-- If the message was refused, the answer is {that number, the error}.
local left, opened = 0, false
if redis.call('exists', KEYS[1]) == 1 then
  left = redis.call('decr', KEYS[1])
  if left <= 0 then
    redis.call('del', KEYS[1])
  end
  opened = left == 0
  left = math.max(left, 0)
end
redis.call('set', KEYS[2], left, 'px', ARGV[2])
if opened then
  return tell(left, ARGV[3], ARGV[1], '0') -- Redisson's word for "open"
end
return left
