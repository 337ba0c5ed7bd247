-- Releases permits of a semaphore that exists, only once even if the request arrives several
-- times. Use semaphore_add for a semaphore that may not exist.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits, at least 0
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done; 0 there is no such semaphore; -1 refused, because there would be
-- more than 2^31-1.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, resultKey = KEYS[1], KEYS[2]
local number, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local free, text = counter(semaphore)
if not free then
  return text
end
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
local more, refused = tonumber(number), nil
if text and more > 0 and free + more <= 2147483647 then
  free, refused = remember('1', keepFor, 'incrby', semaphore, number)
  if not free then
    return refused
  end
  return tell(1, publish, channel, string.format('%.0f', free))
end
done = not text and '0' or free + more > 2147483647 and '-1' or '1'
redis.call('set', resultKey, done, 'px', keepFor)
return tonumber(done)
