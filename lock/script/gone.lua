-- The first question of a script that needs an existing hold.
--
-- gone reports whether the hold is gone. If that is uncertain, it also returns an error, and the
-- script answers this error.
local function gone(key, field)
  local there = redis.pcall('hexists', key, field)
  if there == 1 then
    return false
  end
  -- A key of another type has lost its hold. A replica says READONLY to the
  -- write: it may not have got the hold yet.
  if there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
    there = redis.pcall('hdel', key, field)
  end
  if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
    return true, there
  end
  return true
end
