-- A vector as it lies in the server's memory, of which sessions read thousands: pgvector's vector_send turns each number into
-- network order, in three times the time. No search_path is pinned: what is built in looks nothing up, and a pin is set anew in every row.
CREATE FUNCTION graphrag._vector_bytes(vector @extschema:vector@.vector) RETURNS bytea
LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE
AS 'byteasend';
COMMENT ON FUNCTION graphrag._vector_bytes(@extschema:vector@.vector) IS 'Four bytes, then the vector''s numbers as float4, in the byte order of the server''s machine';
