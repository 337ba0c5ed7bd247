-- Takes permits that expire, or confirms that an earlier copy of the request did.
--
-- KEYS[1]  the counter of free permits
-- KEYS[2]  the taken permits {id: deadline in epoch ms}
-- ARGV[1]  12 bytes, never used before: permit i has the id ARGV[1] .. i in 4 bytes
-- ARGV[2]  how many permits, at least 1
-- ARGV[3]  1: if fewer are free, take these; 0: all or none
-- ARGV[4]  their deadline in epoch ms, by the client's clock
-- ARGV[5]  the client's clock in epoch ms, used if TIME is refused; permits with a deadline up
--          to it are free
-- ARGV[6]  channel on which free permits are published
-- ARGV[7]  command that publishes there
-- ARGV[8+] permits of earlier attempts with an unknown outcome:
--          12 bytes and a number
--
-- Answers {taken, free, ms}: the number of taken permits, 0 if there were too few; the number of
-- free ones now; the ms until the next permit expires, -1 if none does. Without a counter there
-- are no permits.
local semaphore, takenKey = KEYS[1], KEYS[2]
local id, number, fewer, channel, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[6], ARGV[7]
local most = tonumber(number)
local now, deadline = ARGV[5], ARGV[4]
local free, refused = counter(semaphore)
if not free then
  return refused
end
if clock then
  now, deadline = string.format('%.0f', clock), string.format('%.0f', deadline + clock - now)
end
if not most then
  return redis.error_reply('ERR wheellock: permit_take needs a number of permits')
end
local ttl, back = redis.call('pttl', semaphore), 0
-- answer publishes the number of free permits if some came back, and returns its argument.
local function answer(what)
  if back > 0 and free > 0 then
    redis.pcall(publish, channel, string.format('%.0f', free))
  end
  return what
end
for k = 8, #ARGV + 1 do
  local gone = ARGV[k] and numbered(ARGV[k]) or redis.pcall('zrangebyscore', takenKey, '-inf', now, 'limit', 0, 1000)
  if gone.err then -- while a slot moves to another server of a Cluster, a key that is gone is refused
    return answer(gone)
  end
  local n, left = giveBack(semaphore, takenKey, gone)
  if not n then
    return answer(left)
  end
  back, free = back + n, left or free
end
local members, taken = numbered(id .. number), 0
local there, refused = deadlines(takenKey, members)
if refused then
  return answer(refused)
end
for i = 1, most do
  if there[i] then
    taken = taken + 1
  end
end
if taken == 0 then
  if fewer == '1' then
    most = math.min(most, free)
  end
  if most > 0 and free >= most then
    taken = most
    for i = taken + 1, #members do
      members[i] = nil
    end
    -- The counter changes last, when nothing else can be refused any more.
    local set = put(takenKey, deadline, members)
    if not set and ttl > 0 then
      set = redis.pcall('pexpire', takenKey, ttl) -- the taken permits expire with their semaphore
    end
    if type(set) ~= 'table' then
      set = redis.pcall('decrby', semaphore, string.format('%.0f', taken))
    end
    if type(set) == 'table' then
      remove(takenKey, members)
      return answer(set)
    end
    free = set
  end
end
local first = redis.pcall('zrange', takenKey, 0, 0, 'withscores')
local left = -1
if first[2] and tonumber(first[2]) < 922337203685477 then -- Redisson's "never"
  left = math.max(tonumber(first[2]) - tonumber(now), 0)
end
return answer({taken, free, left})
