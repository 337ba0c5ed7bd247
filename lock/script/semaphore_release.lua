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
local more = tonumber(ARGV[1])
done = '0'
if text and free + more > 2147483647 then
  done = '-1'
elseif text then
  if more > 0 then
    free = redis.call('incrby', KEYS[1], ARGV[1])
  end
  done = '1'
end
redis.call('set', KEYS[2], done, 'px', ARGV[3])
if done == '1' and more > 0 then
  return tell(1, ARGV[4], ARGV[2], string.format('%.0f', free))
end
return tonumber(done)
