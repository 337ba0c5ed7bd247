-- Takes a read-write lock for a new read hold, or confirms that a repeated
-- request took it.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the hold's timeout: present for as long as the hold lasts
-- KEYS[3]  the writers that wait {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  field of a write hold of the same owner, "" if there is none
-- ARGV[4]  1: writers that wait go first, 0: they do not
-- ARGV[5]  what the names of timeouts begin with
-- ARGV[6+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, 1} acquired, {0, ms} held for writing, or a writer waits, for that
-- long (-1: no TTL). The timeouts of ARGV[6+] are named here and not in KEYS, as
-- are those of other readers in the release scripts; they share the lock's slot.
local lease = tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_read needs a lease of at least 1 ms')
end
for i = 6, #ARGV do
  redis.call('hdel', KEYS[1], ARGV[i])
  redis.call('del', ARGV[5] .. ':' .. ARGV[i] .. ':rwlock_timeout:1')
end
local mode = redis.call('hget', KEYS[1], 'mode')
if (mode == 'read' or mode == 'write') and redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  mode = false
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  if mode == 'write' then
    if ARGV[3] == '' or redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
      return {0, redis.call('pttl', KEYS[1])}
    end
  elseif mode ~= 'read' and redis.call('exists', KEYS[1]) == 1 then
    return {0, redis.call('pttl', KEYS[1])} -- another sort of lock
  elseif ARGV[4] == '1' and redis.call('exists', KEYS[3]) == 1 then
    return {0, redis.call('pttl', KEYS[3])}
  end
end
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read')
end
redis.call('hset', KEYS[1], ARGV[1], '1')
for i = 1, 2 do
  if redis.call('pttl', KEYS[i]) < lease then
    if i == 2 then
      redis.call('set', KEYS[2], '1', 'px', ARGV[2])
    else
      redis.call('pexpire', KEYS[1], lease)
    end
  end
end
return {1, 1}
