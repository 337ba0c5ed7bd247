-- What a script asks first about a hold that must still be there.
--
-- gone reports whether the hold is no more. If that is not certain it returns the error too,
-- which is the answer of the script then.
local function gone(key, field)
  local there = redis.pcall('hexists', key, field)
  if there == 1 then
    return false
  end
  -- A key of another type has no hold any more. A replica says READONLY to the
  -- write: it may not have got the hold yet.
  if there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
    there = redis.pcall('hdel', key, field)
  end
  if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return true, there
  end
  return true
end
