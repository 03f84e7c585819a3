import { useState } from 'preact/hooks'
import { filled, guides } from '../../guides/pages.ts'
import { Frame } from '../parts/frame.tsx'

/** What connects a client to this gateway, to be pasted: the page of the documents with the address, the key and the model. */
export function Connect({ apiKey, model }: { readonly apiKey: string; readonly model: string }) {
  const [client, setClient] = useState(guides[0]?.client ?? '')
  const guide = guides.find((known) => known.client === client)
  const place = { baseUrl: location.origin, key: apiKey === '' ? null : apiKey, model: model === '' ? null : model }
  return (
    <details class="connect">
      <summary>Connect a program</summary>
      <label for="client">Program</label>
      <select id="client" value={client} onChange={(event) => setClient(event.currentTarget.value)}>
        {guides.map((known) => (
          <option key={known.client} value={known.client}>
            {known.title}
          </option>
        ))}
      </select>
      {guide !== undefined && (
        <Frame label={`How to connect ${guide.title}`} kind="guide">
          <pre>{filled(guide, place)}</pre>
        </Frame>
      )}
    </details>
  )
}
