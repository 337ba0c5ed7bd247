-- Gives one count of a hold back, or the whole hold.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] the count that remains; 0 releases the hold
-- ARGV[3] lease in ms that a remaining hold keeps at least, at least 1
-- ARGV[4] channel on which a release wakes waiters
-- ARGV[5] command that publishes there; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; 0 still held with the
-- remaining count; -1 the hold is gone.
-- A full release uses only commands that are not refused when memory is out.
local lease = tonumber(ARGV[3])
local remaining = tonumber(ARGV[2])
if not lease or lease < 1 or not remaining then
  return redis.error_reply('ERR wheellock: release needs a count and a lease of at least 1 ms')
end
if remaining > 0 then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    redis.call('hdel', KEYS[1], ARGV[1]) -- a replica says READONLY: it may not have got the hold yet
    return -1
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  if redis.call('pttl', KEYS[1]) < lease then
    redis.call('pexpire', KEYS[1], ARGV[3])
  end
  return 0
end
-- Not asked afterwards: a key that is gone may not be touched while its slot
-- moves to another server of a Cluster.
local last = redis.call('hlen', KEYS[1]) == 1
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if last then
  -- It is released, whatever becomes of the message.
  local told = redis.pcall(ARGV[5] or 'publish', ARGV[4], '0')
  return 1 + (type(told) == 'number' and told or 0)
end
return 1
