-- Updates a read-write lock when some of its fields go. It precedes every script that removes
-- fields.
--
-- The script sets these locals before it calls a function of this fragment:
--   writers  key of the waiting writers; nil once the script has deleted it, because a script must
--            not touch a key that is gone while its slot moves
--   channel  channel on which a release wakes waiters
--   publish  command that publishes there
--   prefix   prefix of the names of timeouts
--   word     the message, if it does not follow from the mode
--
-- The cost of a call is bounded, no matter how many fields the lock has and what other programs
-- have written there. Up to 32 fields are all read, with at most 4,096 timeouts. A lock with more
-- fields is a crowd. Of a crowd the script draws 16 fields at a time and removes the dead ones,
-- which have no timeout. It draws at most 1,024 fields with 4,096 timeouts per call. So a crowd
-- stays a crowd only while most of its holds live.
local lock = KEYS[1]
local writers, channel, publish, prefix, word
local few, drawn, most, looks = 32, 16, 1024, 4096
local seen, looked, cursor, buried = 0, 0, nil, false -- how much this call has drawn, and whether it removed any field
-- counts reports whether a field's value can be the count of a hold. Other programs may have
-- written anything, and no owner enters a billion times.
local function counts(count)
  return #count < 10 and string.match(count, '^%d+$')
end
-- timeouts returns how many timeouts a reader with this count may have: 0 if it is no count.
local function timeouts(count)
  return counts(count) and tonumber(count) or 0
end
local function timeout(field, n)
  return prefix .. ':' .. field .. ':rwlock_timeout:' .. string.format('%.0f', n)
end
-- crowded reports whether the lock is a crowd even without the fields that go.
local function crowded(go)
  return redis.call('hlen', lock) > 1 + few + #go
end
-- draw returns some fields with their counts, and the cursor for the next draw.
local function draw(cursor)
  if not cursor then
    local some = redis.pcall('hrandfield', lock, drawn, 'withvalues')
    if not some.err then
      return some
    end
    cursor = redis.call('pttl', lock) * 7919 % 4294967296 -- before Redis 6.2: HSCAN, from a random cursor
  end
  local page = redis.pcall('hscan', lock, string.format('%.0f', cursor), 'count', drawn)
  if page.err then
    return {}, -1 -- neither is permitted, so no field is known to be dead
  end
  local some, all = {}, #page[2]
  -- HSCAN returns a small hash whole, and of a large one about as many fields as it was asked for.
  for i = 0, math.min(all, 4 * drawn) - 1 do
    some[i + 1] = page[2][(2 * cursor + i) % all + 1]
  end
  return some, tonumber(page[1])
end
-- living returns how many of these timeouts exist. It returns nil if this is unknown because their
-- slot is moving to another server of a Cluster.
local function living(names)
  local n = 0
  for i = 1, #names, 1000 do
    local there = redis.pcall('exists', unpack(names, i, math.min(i + 999, #names)))
    if type(there) == 'table' then
      return nil
    end
    n = n + there
  end
  return n
end
-- owners reports whether a field and its count have the form that a hold has. Other fields are
-- left alone.
local function owners(field, count)
  return string.match(field, ':%-?%w+$') and string.match(count, '^%d+$')
end
-- bury removes dead fields from a crowd until it draws a living one. Fields that go do not count.
local function bury(go)
  local mode = redis.call('hget', lock, 'mode')
  while seen < most and (mode == 'read' or mode == 'write') and crowded(go) do
    local some, readers, all, dead = nil, {}, {}, {}
    some, cursor = draw(cursor)
    seen = cursor == -1 and most or seen + math.max(drawn, #some / 2)
    for i = 1, #some, 2 do
      local field, n = some[i], timeouts(some[i + 1])
      if field ~= 'mode' and not go[field] then
        if string.sub(field, -6) == ':write' or not (owners(field, some[i + 1]) and counts(some[i + 1])) or looked + n > looks then
          seen = most -- it may be alive, so this draw is the last
        else
          looked = looked + n
          readers[field] = {}
          for k = 1, n do
            all[#all + 1] = timeout(field, k)
            readers[field][k] = all[#all]
          end
        end
      end
    end
    -- One command is enough if all of them live or none does, which is the usual case.
    local there = living(all)
    for field, names in pairs(readers) do
      if there == 0 or there and there < #all and living(names) == 0 then
        dead[#dead + 1] = field
      else
        seen = most
      end
    end
    if #dead > 0 then
      redis.call('hdel', lock, unpack(dead))
      buried = true
    end
  end
end
-- going returns the fields that go, as a list and as a set. The argument says where they begin in
-- ARGV.
local function going(first)
  local go = {}
  for i = first, #ARGV do
    go[#go + 1], go[ARGV[i]] = ARGV[i], true
  end
  return go
end
-- rest returns the state of the lock without the fields that go: its mode, whether a writer holds
-- it, and the longest remaining time of a reader in ms. This time is infinite if it is unknown or
-- if a timeout has no TTL. Call rest before the first change: while the slot moves to another
-- server of a Cluster, a timeout may have moved before the lock, and then the script ends with an
-- error.
local function rest(go)
  bury(go)
  if crowded(go) then
    -- A lock has one writer.
    local mode = redis.call('hget', lock, 'mode')
    local writing = mode == 'write'
    for _, field in ipairs(go) do
      if string.sub(field, -6) == ':write' and redis.call('hexists', lock, field) == 1 then
        writing = false
      end
    end
    return mode, writing, math.huge
  end
  local mode, writing, longest, sum = false, false, 0, 0
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      mode = fields[i + 1]
    elseif go[fields[i]] then
      fields[i + 1] = '0'
    elseif string.sub(fields[i], -6) == ':write' then
      writing = true
    else
      sum = sum + timeouts(fields[i + 1])
    end
  end
  if sum > looks then
    return mode, writing, math.huge
  end
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and string.sub(fields[i], -6) ~= ':write' then
      for n = timeouts(fields[i + 1]), 1, -1 do
        local left = redis.call('pttl', timeout(fields[i], n))
        longest = math.max(longest, left == -1 and math.huge or left) -- -1: a timeout without TTL
      end
    end
  end
  return mode, writing, longest
end
-- settle brings the lock to the state that rest has found. Call it after the fields are gone. A
-- lock with a writer stays as it is. A lock with readers gets the longest time of a reader as its
-- TTL. A lock without holds is deleted. When a writer has gone, readers get a turn before waiting
-- writers keep them out again. settle returns how many subscribers got the message, and the error
-- if the message was refused.
local function settle(mode, writing, longest)
  if writing or mode ~= 'read' and mode ~= 'write' then
    return 0
  end
  if longest == 0 then
    redis.call('del', lock)
  elseif longest < math.huge then
    redis.pcall('pexpire', lock, longest) -- if it is refused, the lock lives longer
  end
  if mode == 'write' then
    if longest > 0 then
      redis.call('hset', lock, 'mode', 'read')
    end
    if writers then
      redis.call('del', writers)
    end
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
-- thinned removes dead fields from a crowd, and reports whether the lock was a crowd. Then a
-- caller that was refused must look again. A lock that is no crowd any more gets the longest time
-- of its remaining readers as its TTL.
local function thinned()
  if not crowded({}) then
    return false
  end
  settle(rest({}))
  return true
end
