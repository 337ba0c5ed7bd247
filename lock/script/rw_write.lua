-- Takes a read-write lock for a new write hold, or confirms that a repeated
-- request took it.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the writers that wait {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  name of the writer, for KEYS[2]
-- ARGV[4]  how long new readers are kept out if there are readers, in ms; 0: not
-- ARGV[5]  what the names of timeouts begin with
-- ARGV[6+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, 1} acquired, {0, pttl} held by others (pttl in ms, -1: none).
local lease = tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_write needs a lease of at least 1 ms')
end
for i = 6, #ARGV do
  redis.call('hdel', KEYS[1], ARGV[i])
  redis.call('del', ARGV[5] .. ':' .. ARGV[i] .. ':rwlock_timeout:1')
end
local mode = redis.call('hget', KEYS[1], 'mode')
if (mode == 'read' or mode == 'write') and redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 and redis.call('exists', KEYS[1]) == 1 then
  if ARGV[4] ~= '0' and redis.call('hget', KEYS[1], 'mode') == 'read' then
    redis.call('hset', KEYS[2], ARGV[3], '1')
    if redis.call('pttl', KEYS[2]) < tonumber(ARGV[4]) then
      redis.call('pexpire', KEYS[2], ARGV[4])
    end
  end
  return {0, redis.call('pttl', KEYS[1])}
end
redis.call('hset', KEYS[1], 'mode', 'write')
redis.call('hset', KEYS[1], ARGV[1], '1')
if redis.call('pttl', KEYS[1]) < lease then
  redis.call('pexpire', KEYS[1], lease)
end
redis.call('hdel', KEYS[2], ARGV[3])
return {1, 1}
