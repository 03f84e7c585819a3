import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { boundaryOf, FormFilter, type FormRules, modelPlace } from '../../../src/protocol/media/form-filter.ts'

const boundary = 'b0undary'
const rules: FormRules = {
  dropped: new Set(['user']),
  check: (name) => {
    if (name === 'svc') throw new Error('svc')
  },
}

/** What comes out for a node that calls the model `theirs`, of a form in pieces of these lengths. */
function filtered(form: Buffer, lengths: readonly number[]): { readonly model: string | null; readonly text: string } {
  const filter = new FormFilter(boundary, rules)
  let at = 0
  for (let piece = 0; at < form.length; piece++) {
    const length = lengths.length === 0 ? form.length : (lengths[piece % lengths.length] ?? 1)
    filter.push(form.subarray(at, at + length))
    at += length
  }
  filter.end()
  const bytes = filter.out.map((piece) => (piece === modelPlace ? Buffer.from('theirs') : piece))
  return { model: filter.model, text: Buffer.concat(bytes).toString('latin1') }
}
const part = (name: string, value: string, more = '') =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
const whole = (...parts: readonly string[]) => Buffer.from(`${parts.join('')}--${boundary}--\r\n`, 'latin1')
const fieldsOf = async (text: string) => {
  const type = `multipart/form-data; boundary=${boundary}`
  const form = await new Response(Buffer.from(text, 'latin1'), { headers: { 'content-type': type } }).formData()
  const entries = [...(form as unknown as Iterable<[string, string | Blob]>)]
  return Promise.all(
    entries.map(async ([name, value]) => [
      name,
      typeof value === 'string' ? value : Buffer.from(await value.arrayBuffer()).toString('latin1'),
    ]),
  )
}

describe('§28: a form on its way through', () => {
  test('whatever the pieces and the bytes, a node gets the same form but for the model and what no node gets', async () => {
    const bytes = fc
      .array(fc.constantFrom('\r', '\n', '-', '\r\n', '--', `--${boundary.slice(0, 4)}`, 'x', '\u0000', 'ÿ'), {
        maxLength: 40,
      })
      .map((pieces) => pieces.join(''))
    await fc.assert(
      fc.asyncProperty(
        bytes,
        fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 8 }),
        fc.boolean(),
        async (content, lengths, modelFirst) => {
          const file = part('file', content, '; filename="a.wav"')
          const model = part('model', 'ours')
          const form = whole(...(modelFirst ? [model, file] : [file, model]), part('user', 'u'), part('language', 'en'))
          const { model: named, text } = filtered(form, lengths)
          expect(named).toBe('ours')
          expect(text).toBe(filtered(form, []).text)
          const expected = modelFirst
            ? [
                ['model', 'theirs'],
                ['file', content],
              ]
            : [
                ['file', content],
                ['model', 'theirs'],
              ]
          expect(await fieldsOf(text)).toEqual([...expected, ['language', 'en']])
        },
      ),
      { numRuns: 300 },
    )
  })

  test.each([
    ['two models', [part('model', 'a'), part('model', 'b')]],
    ['a model by another spelling', [part('model', 'a'), part('Model', 'b')]],
    ['a list of models', [part('model', 'a'), part('model[]', 'b')]],
    [
      'a name without quotes',
      [part('model', 'a'), '--b0undary\r\nContent-Disposition: form-data; name=model\r\n\r\nb\r\n'],
    ],
    [
      'two names in one part',
      [
        `--b0undary\r\nContent-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"\r\n\r\nb\r\n`,
      ],
    ],
    ['a header that nobody knows', ['--b0undary\r\nX: y\r\nContent-Disposition: form-data; name="x"\r\n\r\nb\r\n']],
    ['a model without a name', [part('model', '')]],
    ['a model with a long name', [part('model', 'x'.repeat(257))]],
    ['a head without an end', [`--b0undary\r\n${'x'.repeat(5_000)}`]],
    ['more parts than a form has', Array.from({ length: 65 }, (_, at) => part(`p${at}`, 'x'))],
    ['a field that must not be', [part('svc', '{}')]],
    ['what is no form', ['x'.repeat(2_000)]],
  ])('%s: refused', (_, parts) => {
    expect(() => filtered(whole(...parts), [7])).toThrow()
  })

  test('a form that is cut off has not ended', () => {
    const form = whole(part('model', 'a'), part('file', 'b'))
    for (const length of [3, 40, form.length - 5]) expect(() => filtered(form.subarray(0, length), [9])).toThrow()
  })

  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data; boundary="a b"', 'a b'],
    ['multipart/form-data', null],
    ['multipart/mixed; boundary=abc', null],
    ['multipart/form-data; boundary=abc; boundary=def', null],
    ['application/json', null],
    [`multipart/form-data; boundary=${'x'.repeat(71)}`, null],
  ])('the boundary of %s', (type, expected) => {
    expect(boundaryOf(type)).toBe(expected)
  })
})
