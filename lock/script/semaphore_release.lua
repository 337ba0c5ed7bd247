-- Releases permits of a semaphore that exists, once however often the request
-- arrives. One that need not exist is given permits by semaphore_add.
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
local free, text = counter(KEYS[1])
if not free then
  return text
end
redis.call('del', KEYS[2]) -- a write, so that memory that is out does not refuse what follows
local more, refused = tonumber(ARGV[1]), nil
if text and more > 0 and free + more <= 2147483647 then
  free, refused = remember('1', ARGV[3], 'incrby', KEYS[1], ARGV[1])
  if not free then
    return refused
  end
  return tell(1, ARGV[4], ARGV[2], string.format('%.0f', free))
end
done = not text and '0' or free + more > 2147483647 and '-1' or '1'
redis.call('set', KEYS[2], done, 'px', ARGV[3])
return tonumber(done)
