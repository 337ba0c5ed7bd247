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
local free, refused = counter(KEYS[1])
if not free then
  return refused
end
redis.call('del', KEYS[2]) -- a write, so that memory that is out does not refuse what follows
if free + tonumber(ARGV[1]) > 2147483647 then
  redis.call('set', KEYS[2], '0', 'px', ARGV[3])
  return 0
end
free, refused = remember('1', ARGV[3], 'incrby', KEYS[1], ARGV[1])
if not free then
  return refused
end
if tonumber(ARGV[1]) > 0 then
  return tell(1, ARGV[4], ARGV[2], string.format('%.0f', free))
end
return 1
