-- Adds permits to a semaphore, once however often the request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits; fewer than 0 takes some away, whether free or not
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done; 0 refused, because there would be more than 2^31-1.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, resultKey = KEYS[1], KEYS[2]
local more, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local free, refused = counter(semaphore)
if not free then
  return refused
end
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
if free + tonumber(more) > 2147483647 then
  redis.call('set', resultKey, '0', 'px', keepFor)
  return 0
end
free, refused = remember('1', keepFor, 'incrby', semaphore, more)
if not free then
  return refused
end
if tonumber(more) > 0 then
  return tell(1, publish, channel, string.format('%.0f', free))
end
return 1
