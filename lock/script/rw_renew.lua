-- Renews many read holds and names those that are gone.
--
-- KEYS[i]    a lock's hash
-- ARGV[1]    lease in ms, at least 1; 1 asks without extending
-- ARGV[2]    prefix of the fields of all these holds
-- ARGV[i+2]  the rest of the field of the hold at KEYS[i]
--
-- Answers the index i of each hold that is gone, and {i, the error} for each hold that Redis
-- refuses to renew. The keys and timeouts of all other holds now have a TTL of at least the
-- lease. The script makes the name of a timeout as Redisson does, in the slot of the lock. A key
-- of another type counts as a hold that is gone. Full memory refuses none of the commands.
local leaseText, client = ARGV[1], ARGV[2]
local lease = tonumber(leaseText)
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_renew needs a lease of at least 1 ms')
end
local gone = {}
for i = 1, #KEYS do
  local key, field = KEYS[i], client .. ARGV[i + 2]
  local prefix = key
  if not string.find(key, '{', 1, true) then
    prefix = '{' .. key .. '}'
  end
  local timeout = prefix .. ':' .. field .. ':rwlock_timeout:1'
  local left, there = redis.pcall('pttl', timeout), false
  if type(left) == 'number' and left ~= -2 then
    there = redis.pcall('hexists', key, field)
  end
  if type(left) == 'table' then
    gone[#gone + 1] = {i, left.err}
  elseif there == 1 then
    local set, written = left, false
    if left < lease and lease > 1 then
      set, written = redis.pcall('pexpire', timeout, leaseText), true
    end
    if type(set) == 'number' then
      set = redis.pcall('pttl', key)
    end
    if type(set) == 'number' and set < lease and lease > 1 then
      set, written = redis.pcall('pexpire', key, leaseText), true
    end
    if not written then -- a replica that lost its master may have the hold still
      local nothing = redis.pcall('hdel', key, '')
      if type(nothing) == 'table' and string.find(nothing.err, 'READONLY', 1, true) then
        return nothing
      end
    end
    if type(set) == 'table' then
      if string.find(set.err, 'READONLY', 1, true) then
        return set
      end
      gone[#gone + 1] = {i, set.err}
    end
  else
    -- A replica refuses the write with READONLY, because the hold may not have reached it yet.
    if left == -2 then
      there = redis.pcall('del', timeout)
    elseif there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
      there = redis.pcall('hdel', key, field)
    end
    if type(there) == 'table' and string.find(there.err, 'READONLY', 1, true) then
      return there
    end
    if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
      gone[#gone + 1] = {i, there.err}
    else
      gone[#gone + 1] = i
    end
  end
end
return gone
