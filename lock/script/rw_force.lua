-- Deletes the holds of a read-write lock that its caller has seen, whoever's they
-- are.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the writers that wait {writer: 1}
-- ARGV[1]  channel on which a release wakes waiters
-- ARGV[2]  command that publishes there
-- ARGV[3]  what the names of timeouts begin with
-- ARGV[4+] fields of the holds
--
-- Answers 1 deleted, 0 there is no lock, -1 the key is a hash but no read-write
-- lock's, -2 all that was there is others'. The timeouts of readers, which are
-- nothing by themselves, expire.
-- If the message was refused, the answer is {that number, the error}.
-- A copy that is late finds nothing: a client of this package uses no field again.
local fields = redis.call('hgetall', KEYS[1])
if #fields == 0 then
  return 0
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return -1
end
for i = 1, #fields, 2 do
  -- Owners end in a number, writers in a word.
  if fields[i] ~= 'mode'
    and not (string.match(fields[i], ':%w+$') and string.match(fields[i + 1], '^%d+$')) then
    return -1
  end
end
local writers, channel, publish, prefix, word = KEYS[2], ARGV[1], ARGV[2], ARGV[3], '1'
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
local go, gone = {}, 0
for i = 4, #ARGV do
  go[ARGV[i]] = true
end
local was, writing, longest = rest(go)
for i = 4, #ARGV do
  gone = gone + redis.call('hdel', KEYS[1], ARGV[i])
end
if gone == 0 and #fields > 2 then
  return -2
end
if longest == 0 and not writing then
  redis.call('del', writers)
end
local _, refusal = settle(was, writing, longest)
return refusal and {1, refusal} or 1
