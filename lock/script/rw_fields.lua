-- What becomes of a read-write lock when fields of it go. It stands before each script that
-- removes some.
--
-- The script sets these before it calls anything here: the key of the writers that wait, or nil
-- once it has deleted that (a key that is gone may not be touched while its slot moves), the
-- channel on which a release wakes waiters, the command that publishes there, what the names
-- of timeouts begin with, and the message, if it is not what the mode says.
--
-- What a call costs does not depend on how many hold the lock, or on what others have written
-- there. Up to 32 fields are all looked at, with at most 4,096 timeouts. Of more the dead are
-- drawn, those without a timeout: 16 fields at a time, up to 1,024 and 4,096 timeouts a call.
-- So the fields become few if most are dead, and stay many only as long as many live.
local lock = KEYS[1]
local writers, channel, publish, prefix, word
local few, drawn, most, looks = 32, 16, 1024, 4096
local seen, looked, cursor, buried = 0, 0, nil, false -- what this call has drawn, and whether it removed any
-- counts reports whether a field's value is a number of entries. What somebody else put there
-- may be anything, and nobody enters a billion times.
local function counts(count)
  return #count < 10 and string.match(count, '^%d+$')
end
-- timeouts returns how many timeouts a reader of that count may have: none if it is no count.
local function timeouts(count)
  return counts(count) and tonumber(count) or 0
end
local function timeout(field, n)
  return prefix .. ':' .. field .. ':rwlock_timeout:' .. string.format('%.0f', n)
end
-- crowded reports whether there are more fields than are all looked at, those apart that go.
local function crowded(go)
  return redis.call('hlen', lock) > 1 + few + #go
end
-- draw returns some fields with their counts, and from where the next are to be drawn.
local function draw(cursor)
  if not cursor then
    local some = redis.pcall('hrandfield', lock, drawn, 'withvalues')
    if not some.err then
      return some
    end
    cursor = redis.call('pttl', lock) * 7919 % 4294967296 -- before Redis 6.2: HSCAN, from somewhere
  end
  local page = redis.pcall('hscan', lock, string.format('%.0f', cursor), 'count', drawn)
  if page.err then
    return {}, -1 -- neither is permitted, so nobody is known to be dead
  end
  local some, all = {}, #page[2]
  -- A small hash comes whole, a page of a large one has some more or less than it was asked for.
  for i = 0, math.min(all, 4 * drawn) - 1 do
    some[i + 1] = page[2][(2 * cursor + i) % all + 1]
  end
  return some, tonumber(page[1])
end
-- living returns how many of these timeouts are there, or nil if that cannot be told, because
-- their slot is just moving to another server of a Cluster.
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
-- owners reports whether a field with its count is what a hold writes. Anything else is left
-- alone.
local function owners(field, count)
  return string.match(field, ':%w+$') and string.match(count, '^%d+$')
end
-- bury removes dead fields as long as all that it draws are dead. Those that go are neither.
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
          seen = most -- it lives, as far as is known
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
    -- Mostly all of them live, or none does.
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
-- going returns the fields that go, as a list and as a set, from that argument on.
local function going(first)
  local go = {}
  for i = first, #ARGV do
    go[#go + 1], go[ARGV[i]] = ARGV[i], true
  end
  return go
end
-- rest returns what remains without the fields that go: the mode, whether somebody writes,
-- and how long the longest reader still may. That is without end where it is not known, or
-- where somebody wants no end. It is called before any of these is changed: a timeout that has
-- gone ahead of the lock, while their slot moves to another server of a Cluster, is an error
-- that ends the script.
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
    redis.call('del', lock)
  elseif longest < math.huge then
    redis.pcall('pexpire', lock, longest) -- where it is refused, the lock lives longer
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
-- thinned reports whether a crowd was looked at because its caller is refused, so that it may
-- not be any more. A crowd that is one no longer lives as long as those who remain.
local function thinned()
  if not crowded({}) then
    return false
  end
  settle(rest({}))
  return true
end
