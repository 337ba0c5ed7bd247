-- The permits of a hold. This precedes scripts that handle all of them. A hold may have a
-- thousand, so each command handles many.
--
-- numbered returns the members of the permits in a text: 12 bytes and their number, see
-- permit_take.
local function numbered(text)
  local char, floor, all, begin = string.char, math.floor, {}, nil
  for i = 1, tonumber(string.sub(text, 13)) do
    if not begin or i % 256 == 0 then
      begin = string.sub(text, 1, 12) .. char(floor(i / 16777216) % 256, floor(i / 65536) % 256, floor(i / 256) % 256)
    end
    all[i] = begin .. char(i % 256)
  end
  return all
end
-- atOnce is the number of members per command.
local atOnce = 250
local zmscore = true -- Redis knows it since 6.2
-- deadlines returns the deadlines of the permits as text, false for one that is not taken. If the
-- key is refused, it returns nil and the error.
local function deadlines(key, members)
  local all = {}
  for i = 1, #members, atOnce do
    local last = math.min(i + atOnce - 1, #members)
    local some = zmscore and redis.pcall('zmscore', key, unpack(members, i, last))
    zmscore = some and not some.err
    for k = i, last do
      local deadline = zmscore and some[k - i + 1]
      if not zmscore then
        deadline = redis.pcall('zscore', key, members[k])
        if type(deadline) == 'table' then
          return nil, deadline
        end
      end
      all[k] = deadline
    end
  end
  return all
end
-- remove deletes the permits and returns how many were taken. If the key is refused, it returns
-- nil and the error.
local function remove(key, members)
  local n = 0
  for i = 1, #members, atOnce do
    local some = redis.pcall('zrem', key, unpack(members, i, math.min(i + atOnce - 1, #members)))
    if type(some) == 'table' then
      return nil, some
    end
    n = n + some
  end
  return n
end
-- giveBack frees the permits that are taken. It returns their number and the new counter of free
-- ones, or nil and the error. Permits that are neither taken nor free would be lost. So it first
-- tries whether it may remove any, and then changes the counter before it removes them.
local function giveBack(counter, key, members)
  if #members == 0 then
    return 0
  end
  -- After a first write, full memory refuses nothing.
  local refused = redis.pcall('zrem', key, '')
  if type(refused) == 'table' then
    return nil, refused
  end
  local there, n = nil, 0
  there, refused = deadlines(key, members)
  if refused then
    return nil, refused
  end
  for i = 1, #members do
    n = n + (there[i] and 1 or 0)
  end
  if n == 0 then
    return 0
  end
  local free = redis.pcall('incrby', counter, string.format('%.0f', n))
  if type(free) == 'table' then
    return nil, free
  end
  remove(key, members)
  return n, free
end
-- put gives all permits a deadline. Further arguments are options of ZADD, such as 'xx'. It
-- returns the error if Redis refuses it.
local function put(key, deadline, members, ...)
  for i = 1, #members, atOnce do
    local words = {...}
    for k = i, math.min(i + atOnce - 1, #members) do
      words[#words + 1] = deadline
      words[#words + 1] = members[k]
    end
    local set = redis.pcall('zadd', key, unpack(words))
    if type(set) == 'table' then
      return set
    end
  end
end
