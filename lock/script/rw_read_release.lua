-- Gives one count of a read hold back, or the whole hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the hold's timeout
-- ARGV[1] field of the hold
-- ARGV[2] the count that remains; 0 releases the hold
-- ARGV[3] lease in ms that a remaining hold keeps at least, at least 1
-- ARGV[4] channel on which a release wakes waiters
-- ARGV[5] what the names of timeouts begin with
--
-- Answers 1 + the number of subscribers told: released; 0 still held with the
-- remaining count; -1 the hold is gone.
-- The lock stays for as long as the longest of the holds that remain: those of
-- readers as their timeouts say, Redisson's among them, that of a writer, whose
-- reader this was, unchanged.
-- A full release uses only commands that are not refused when memory is out.
local lease = tonumber(ARGV[3])
local remaining = tonumber(ARGV[2])
if not lease or lease < 1 or not remaining then
  return redis.error_reply('ERR wheellock: rw_read_release needs a count and a lease of at least 1 ms')
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  redis.call('del', KEYS[2])
  return -1
end
if remaining > 0 then
  if redis.call('exists', KEYS[2]) == 0 then
    return -1
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  for i = 1, 2 do
    if redis.call('pttl', KEYS[i]) < lease then
      redis.call('pexpire', KEYS[i], lease)
    end
  end
  return 0
end
redis.call('hdel', KEYS[1], ARGV[1])
redis.call('del', KEYS[2])
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  return 1
end
local longest = 0
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  for n = tonumber(fields[i + 1]) or 0, 1, -1 do
    local left = redis.call('pttl', ARGV[5] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
    if left == -1 then
      return 1 -- somebody wants no end
    end
    longest = math.max(longest, left)
  end
end
if longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  return 1
end
redis.call('del', KEYS[1])
return 1 + redis.call('publish', ARGV[4], '0')
