-- The locks of other libraries.
--
-- foreign returns the TTL in ms of a key that is another library's lock: a string with a TTL,
-- as SET NX PX makes it. It returns nil for any other key.
local function foreign(key)
  local left = type(redis.pcall('get', key)) == 'string' and redis.call('pttl', key) or -1
  return left >= 0 and left or nil
end
