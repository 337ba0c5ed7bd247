-- Sets how long a semaphore lives, once however often the request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] the taken permits, if the semaphore's permits expire
-- ARGV[1] how long from now, in ms
-- ARGV[2] how long the result is remembered, in ms
--
-- Answers 1 done, 0 there is no such semaphore.
local semaphore, resultKey, taken = KEYS[1], KEYS[2], KEYS[3]
local life, keepFor = ARGV[1], ARGV[2]
local n, text = counter(semaphore)
if not n then
  return text
end
if taken then
  redis.call('zcard', taken) -- a key of another type fails here, because its TTL is not ours to change
end
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
local set, never = remember(text and 1 or 0, keepFor, 'pexpire', semaphore, life)
if not set then
  return never
end
if set == 1 and taken then
  redis.call('pexpire', taken, life) -- permits taken later get the remaining TTL, see permit_take
end
return set
