-- Deletes a read-write lock, whoever holds it.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the writers that wait {writer: 1}
-- ARGV[1] channel on which a release wakes waiters
--
-- Answers 1 deleted, 0 there was none, -1 the key is a hash but no read-write
-- lock's. The timeouts of readers, which are nothing by themselves, expire.
if redis.call('hlen', KEYS[1]) == 0 then
  return 0
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return -1
end
redis.call('del', KEYS[1], KEYS[2])
redis.call('publish', ARGV[1], '1')
return 1
