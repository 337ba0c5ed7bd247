-- What becomes of a read-write lock when fields of it go. It stands before each script that
-- removes some.
--
-- The script sets these before it calls anything here: the key of the writers that wait, the
-- channel on which a release wakes waiters, the command that publishes there, what the names
-- of timeouts begin with, and the message, if it is not what the mode says.
local writers, channel, publish, prefix, word
-- rest returns what remains without the fields that go. It is called before anything is
-- changed: a timeout that has gone ahead of the lock, while their slot moves to another
-- server of a Cluster, is an error that ends the script.
local function rest(go)
  local mode, writing, longest = false, false, 0
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      mode = fields[i + 1]
    elseif not go[fields[i]] and string.sub(fields[i], -6) == ':write' then
      writing = true
    elseif not go[fields[i]] then
      for n = math.min(tonumber(fields[i + 1]) or 0, 1000), 1, -1 do -- what somebody else put there may be anything
        local left = redis.call('pttl', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
        longest = math.max(longest, left == -1 and math.huge or left) -- -1: somebody wants no end
      end
    end
  end
  return mode, writing, longest
end
-- settle makes the lock what rest has found, once the fields are gone: that of a
-- writer is left as it is, that of readers lives as long as the longest of them,
-- that of nobody is deleted. When a writer has gone, readers have their turn
-- before writers that wait keep them out again. It returns how many were told, and
-- why the message was refused.
local function settle(mode, writing, longest)
  if writing or mode ~= 'read' and mode ~= 'write' then
    return 0
  end
  if longest == 0 then
    redis.call('del', KEYS[1])
  elseif longest < math.huge then
    redis.call('pexpire', KEYS[1], longest)
  end
  if mode == 'write' then
    if longest > 0 then
      redis.call('hset', KEYS[1], 'mode', 'read')
    end
    redis.call('del', writers)
  elseif longest > 0 then
    return 0
  end
  -- 1 is Redisson's word for "all waiters, readers too".
  local told = redis.pcall(publish, channel, word or mode == 'write' and '1' or '0')
  if type(told) == 'table' then
    return 0, told.err
  end
  return told
end
