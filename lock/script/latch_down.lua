-- Counts a latch down by one, only once even if the request arrives several times. At zero the
-- latch opens.
--
-- KEYS[1] the latch's count; there is none while it is open
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the latch's channel
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers the new count; 0 if the latch was open already.
-- If the message was refused, the answer is {that number, the error}.
local latch, resultKey, channel, keepFor, publish = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local n, text = counter(latch)
if not n then
  return text
end
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
local left = math.max(n - 1, 0)
if not text then
  redis.call('set', resultKey, left, 'px', keepFor)
  return left
end
local counted, refused
if left > 0 then
  counted, refused = remember(left, keepFor, 'decr', latch)
else
  counted, refused = remember(left, keepFor, 'del', latch)
end
if not counted then
  return refused
end
if n == 1 then
  return tell(left, publish, channel, '0') -- Redisson's word for "open"
end
return left
