import fc from 'fast-check'

/** A JSON value that nobody needs, as data: a failure prints what it was. */
export type OddValue =
  | { readonly nest: '[' | '{"a":' | '[{"a":'; readonly depth: number; readonly closed: boolean }
  | { readonly keys: number; readonly alike: boolean }
  | { readonly items: number }
  | { readonly chars: number; readonly of: string }
  | { readonly text: string }

const closing = { '[': ']', '{"a":': '}', '[{"a":': '}]' } as const

/** JSON, or nearly; `§` stands for the marker of the request. */
export function oddText(value: OddValue): string {
  if ('nest' in value) {
    const { nest, depth, closed } = value
    return `${nest.repeat(depth)}1${closed ? closing[nest].repeat(depth) : ''}`
  }
  if ('keys' in value) {
    const { keys, alike } = value
    return `{${Array.from({ length: keys }, (_, at) => `"k${alike ? 0 : at}":0`).join(',')}}`
  }
  if ('items' in value) return `[${'0,'.repeat(value.items)}0]`
  if ('chars' in value) return `"§${value.of.repeat(value.chars)}§"`
  return value.text
}

const literals = [
  'null',
  'true',
  '-1',
  '0.5',
  '1e999',
  '-0',
  '2147483648',
  '9007199254740993',
  '1e400000',
  '""',
  '"§"',
  '"\\ud800"',
  '"\\u0000"',
  '"\xff\xfe"',
  '"\x01"',
  '{}',
  '[]',
  '[[]]',
  '{"__proto__":{"polluted":"§"}}',
  '{"constructor":{"prototype":{"a":1}}}',
  '{"toJSON":"§"}',
  '{"a":1,"a":2}',
  'NaN',
  'undefined',
  '{',
  '"',
  '}',
  '1 2',
  '\xef\xbb\xbf{}',
]

/** `scale`: 0 for what is short; 1: as much as is odd in a node's answer; more: up to the largest body that is read. */
export function oddValue(scale: number): fc.Arbitrary<OddValue> {
  const nest = fc.constantFrom('[', '{"a":', '[{"a":')
  const closed = fc.boolean()
  const few = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...literals).map((text) => ({ text })) },
    { weight: 2, arbitrary: fc.record({ nest, depth: fc.nat(300), closed }) },
    { weight: 1, arbitrary: fc.record({ keys: fc.nat(300), alike: closed }) },
    { weight: 1, arbitrary: fc.record({ items: fc.nat(300) }) },
    { weight: 1, arbitrary: fc.record({ chars: fc.nat(3_000), of: fc.constantFrom('a', '\\n', '\xc3\xa4', '\\\\') }) },
  )
  if (scale === 0) return few
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ nest, depth: fc.nat(60_000 * scale), closed }) },
    { weight: 1, arbitrary: fc.record({ keys: fc.nat(150_000 * scale), alike: closed }) },
    { weight: 1, arbitrary: fc.record({ items: fc.nat(500_000 * scale) }) },
    {
      weight: 1,
      arbitrary: fc.record({ chars: fc.nat(1_000_000 * scale), of: fc.constantFrom('a', '\\n', '\xc3\xa4') }),
    },
  )
}
