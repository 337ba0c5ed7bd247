-- Deletes a semaphore, once however often the request arrives. It publishes
-- nothing, because nothing becomes free.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] of a semaphore whose permits expire: those that are taken
-- ARGV[1] how long the result is remembered, in ms
--
-- Answers 1 done, 0 there was none.
local n, text = counter(KEYS[1])
if not n then
  return text
end
local permits = KEYS[3] and redis.call('zcard', KEYS[3]) or 0 -- fails, before anything is deleted, at a key of another type
redis.call('del', KEYS[2]) -- a write, so that memory that is out does not refuse what follows
done = (text or permits > 0) and 1 or 0
local gone, never = remember(done, ARGV[1], 'del', KEYS[1], KEYS[3] or KEYS[1])
return gone and done or never
