-- Gives a semaphore that does not exist its permits, once however often the
-- request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done, 0 the semaphore exists.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, resultKey = KEYS[1], KEYS[2]
local number, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
done = '0'
if not redis.call('get', semaphore) then
  redis.call('set', semaphore, number)
  done = '1'
end
redis.call('set', resultKey, done, 'px', keepFor)
if done == '1' then
  return tell(1, publish, channel, number)
end
return tonumber(done)
