-- Deletes a semaphore, once however often the request arrives. It publishes
-- nothing, because nothing becomes free.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] of a semaphore whose permits expire: those that are taken
-- ARGV[1] how long the result is remembered, in ms
--
-- Answers 1 done, 0 there was none.
local n, refused = counter(KEYS[1])
if not n then
  return refused
end
if KEYS[3] then
  redis.call('zcard', KEYS[3]) -- fails, before anything is deleted, at a key of another type
end
done = redis.call('del', KEYS[1])
if KEYS[3] then
  done = math.max(done, redis.call('del', KEYS[3]))
end
redis.call('set', KEYS[2], done, 'px', ARGV[1])
return done
