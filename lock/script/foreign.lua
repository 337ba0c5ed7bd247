-- The locks of other libraries.
--
-- foreign returns for how many ms a key is still the lock of another library: a string with a
-- TTL, as SET NX PX makes it. It returns nil if the key is none.
local function foreign(key)
  local left = type(redis.pcall('get', key)) == 'string' and redis.call('pttl', key) or -1
  return left >= 0 and left or nil
end
