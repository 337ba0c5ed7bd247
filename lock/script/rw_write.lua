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
-- ARGV[6]  channel on which a release wakes waiters
-- ARGV[7]  command that publishes there
-- ARGV[8+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, 1} acquired, {0, pttl} held by others (pttl in ms, -1: none),
-- {0, pttl, 1} held by another library.
local lease = tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_write needs a lease of at least 1 ms')
end
local found = redis.pcall('hget', KEYS[1], 'mode')
if type(found) == 'table' then
  -- A string with a TTL is the lock of another library, as SET NX PX makes it.
  local text = redis.pcall('get', KEYS[1])
  local left = type(text) == 'string' and redis.call('pttl', KEYS[1]) or -1
  if left >= 0 then
    return {0, left, 1}
  end
  return found
end
redis.call('hlen', KEYS[2]) -- fails, before anything is changed, at a key of another type
writers, channel, publish, prefix = KEYS[2], ARGV[6], ARGV[7], ARGV[5]
local go, mode = going(8), redis.call('hget', KEYS[1], 'mode')
if #go > 0 or mode == 'write' then
  local was, writing, longest = rest(go)
  local gone = 0
  for i = 8, #ARGV do
    gone = gone + redis.call('hdel', KEYS[1], ARGV[i])
    redis.call('del', prefix .. ':' .. ARGV[i] .. ':rwlock_timeout:1')
  end
  -- A writer's mode without a writer is what an earlier version has left.
  if gone > 0 or buried or was == 'write' and not writing then
    settle(was, writing, longest)
  end
  mode = redis.call('hget', KEYS[1], 'mode')
end
if (mode == 'read' or mode == 'write') and redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
end
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('exists', KEYS[1]) == 1 and not (thinned() and redis.call('exists', KEYS[1]) == 0) then
  if ARGV[4] ~= '0' and redis.call('hget', KEYS[1], 'mode') == 'read' then
    redis.call('hset', KEYS[2], ARGV[3], '1')
    local set = redis.pcall('pttl', KEYS[2])
    if type(set) == 'number' and set < tonumber(ARGV[4]) then
      set = redis.pcall('pexpire', KEYS[2], ARGV[4])
    end
    if type(set) == 'table' then -- readers would be kept out for ever
      redis.call('hdel', KEYS[2], ARGV[3])
      return set
    end
  end
  return {0, redis.call('pttl', KEYS[1])}
end
redis.call('hset', KEYS[1], 'mode', 'write')
redis.call('hset', KEYS[1], ARGV[1], '1')
local set = redis.pcall('pttl', KEYS[1])
if type(set) == 'number' and set < lease then
  set = redis.pcall('pexpire', KEYS[1], lease)
end
if type(set) == 'table' then -- nobody holds a lock that would never end
  if not mine then
    redis.call('hdel', KEYS[1], ARGV[1], 'mode')
  end
  return set
end
redis.call('hdel', KEYS[2], ARGV[3])
return {1, 1}
