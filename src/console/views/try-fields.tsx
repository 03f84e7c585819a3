export interface Fields {
  readonly text: string
  /** What of it goes with each question; the last that could be read. */
  readonly value: object
  readonly wrong: boolean
}

/** What the page itself sends: a person who sets it by hand would read an answer to something else. */
const own: readonly string[] = ['model', 'messages', 'stream', 'svc']

function read(text: string): Fields {
  if (text.trim() === '') return { text, value: {}, wrong: false }
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject && !own.some((name) => name in value)
      ? { text, value, wrong: false }
      : { text, value: {}, wrong: true }
  } catch {
    return { text, value: {}, wrong: true }
  }
}

/** Further fields of the request: tools, a JSON schema, a temperature. */
export function FieldsSetting({ fields, change }: { fields: Fields; change: (next: Fields) => void }) {
  const { text, wrong } = fields
  return (
    <>
      <label for="fields">More fields of the request</label>
      <textarea
        id="fields"
        rows={3}
        spellcheck={false}
        placeholder={'{"tools": […], "response_format": {…}}'}
        value={text}
        aria-describedby="fields-hint"
        aria-invalid={wrong}
        onInput={(event) => change(read(event.currentTarget.value))}
      />
      <p id="fields-hint" class={wrong ? 'alert' : 'hint'} role={wrong ? 'alert' : undefined}>
        {wrong
          ? `Type one JSON object without ${own.join(', ')}.`
          : 'A JSON object, for example with tools, a response_format with a schema, or a temperature.'}
      </p>
    </>
  )
}
