-- What a reader and a writer do before they take a read-write lock.
--
-- tidy takes the fields ARGV[8+] out, of earlier attempts, and what the dead have left. It
-- returns the mode of the lock then, false if nobody has it.
local function tidy()
  local go, mode = going(8), redis.call('hget', lock, 'mode')
  if #go > 0 or mode == 'write' then
    local was, writing, longest = rest(go)
    local n = 0
    for i = 8, #ARGV do
      n = n + redis.call('hdel', lock, ARGV[i])
      redis.call('del', prefix .. ':' .. ARGV[i] .. ':rwlock_timeout:1')
    end
    -- A writer's mode without a writer is what an earlier version has left.
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
-- prolong gives a key at least that lease. It returns the error if it is refused.
local function prolong(key, lease)
  local set = redis.pcall('pttl', key)
  if type(set) == 'number' and set < lease then
    set = redis.pcall('pexpire', key, lease)
  end
  return type(set) == 'table' and set or nil
end
