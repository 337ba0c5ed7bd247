-- Deletes a semaphore, once however often the request arrives. It publishes
-- nothing, because nothing becomes free.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] the taken permits, if the semaphore's permits expire
-- ARGV[1] how long the result is remembered, in ms
--
-- Answers 1 done, 0 there was none.
local semaphore, resultKey, taken, keepFor = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local n, text = counter(semaphore)
if not n then
  return text
end
local permits = taken and redis.call('zcard', taken) or 0 -- a key of another type fails here, before anything is deleted
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
done = (text or permits > 0) and 1 or 0
local gone, never = remember(done, keepFor, 'del', semaphore, taken or semaphore)
return gone and done or never
