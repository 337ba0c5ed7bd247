-- Closes a latch that is open, once however often the request arrives.
--
-- KEYS[1] the latch's count; there is none while it is open
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the count, at least 1
-- ARGV[2] the latch's channel
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done, 0 the latch is closed already.
-- If the message was refused, the answer is {that number, the error}.
local latch, resultKey = KEYS[1], KEYS[2]
local count, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
done = '0'
if not redis.call('get', latch) then
  redis.call('set', latch, count)
  done = '1'
end
redis.call('set', resultKey, done, 'px', keepFor)
if done == '1' then
  return tell(1, publish, channel, '1') -- Redisson's word for "closed", and for "deleted"
end
return tonumber(done)
