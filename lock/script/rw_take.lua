-- The first steps of rw_read and rw_write. It follows rw_fields.
--
-- tidy removes the fields ARGV[8+] of earlier attempts, and the remains of dead holders. It
-- returns the mode of the lock after that, false if the lock is free.
local function tidy()
  local go, mode = going(8), redis.call('hget', lock, 'mode')
  if #go > 0 or mode == 'write' then
    local was, writing, longest = rest(go)
    local n = 0
    for i = 8, #ARGV do
      n = n + redis.call('hdel', lock, ARGV[i])
      redis.call('del', prefix .. ':' .. ARGV[i] .. ':rwlock_timeout:1')
    end
    -- An earlier version left the mode of a writer without a writer.
    if n > 0 or buried or was == 'write' and not writing then
      settle(was, writing, longest)
    end
    mode = redis.call('hget', lock, 'mode')
  end
  if (mode == 'read' or mode == 'write') and redis.call('hlen', lock) == 1 then
    redis.call('del', lock)
    mode = false
  end
  return mode
end
-- prolong gives a key a TTL of at least the lease. It returns the error if Redis refuses it.
local function prolong(key, lease)
  local set = redis.pcall('pttl', key)
  if type(set) == 'number' and set < lease then
    set = redis.pcall('pexpire', key, lease)
  end
  return type(set) == 'table' and set or nil
end
