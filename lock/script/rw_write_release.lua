-- Releases a write hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the writers that wait {writer: 1}
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] what the names of timeouts begin with
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- If its owner reads too, the lock is held for reading from now on. Readers have
-- their turn before writers that wait keep them out again.
local there = redis.pcall('hexists', KEYS[1], ARGV[1])
if there ~= 1 then
  -- A key of another type has no hold any more. A replica says READONLY to the
  -- write: it may not have got the hold yet.
  if there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
    there = redis.pcall('hdel', KEYS[1], ARGV[1])
  end
  if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return there
  end
  return -1
end
local writers, channel, publish, prefix, word = KEYS[2], ARGV[2], ARGV[4] or 'publish', ARGV[3]
-- What remains without the fields that go. From here to the line of stars the
-- text is the same in all scripts that remove fields of a read-write lock. They
-- call rest before they change anything: a timeout that has gone ahead of the
-- lock, while their slot moves to another server of a Cluster, is an error that
-- ends the script.
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
-- ************************************************************************
local mode, writing, longest = rest({[ARGV[1]] = true})
redis.call('hdel', KEYS[1], ARGV[1]) -- a write, so that memory that is out does not refuse what follows
local told, refusal = settle(mode, writing, longest)
if refusal then
  return {1, refusal}
end
return 1 + told
