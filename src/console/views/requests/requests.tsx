import { useState } from 'preact/hooks'
import { Alert } from '../../parts/states.tsx'
import { whyOf } from '../../state/api.ts'
import { addressOfId } from '../../state/open-id.ts'
import { usePlace } from '../../state/place.ts'
import { RequestList } from './request-list.tsx'
import { RequestPage } from './request-page.tsx'

/** What became of each request, and where any id leads. */
export function Requests() {
  const { id, query } = usePlace()
  return (
    <>
      <div class="title-bar">
        <h1>Requests</h1>
        <OpenId />
      </div>
      {id === null ? <RequestList query={query} /> : <RequestPage key={id} id={id} receipt={query.get('receipt')} />}
    </>
  )
}

function OpenId() {
  const [given, setGiven] = useState('')
  const [why, setWhy] = useState<string | null>(null)
  const open = async () => {
    try {
      const address = await addressOfId(given)
      setWhy(address === null ? 'Nothing here has this id.' : null)
      if (address !== null) location.hash = address
    } catch (error) {
      setWhy(whyOf(error))
    }
  }
  return (
    <form
      class="open-id"
      aria-label="Open an id"
      onSubmit={(event) => {
        event.preventDefault()
        void open()
      }}
    >
      <label for="any-id">Any id</label>
      <input
        id="any-id"
        type="text"
        spellcheck={false}
        autocomplete="off"
        placeholder="req_…, job, cmd_…, bat_…, 0x…"
        value={given}
        onInput={(event) => setGiven(event.currentTarget.value)}
      />
      <button type="submit" disabled={given.trim() === ''}>
        Open
      </button>
      {why !== null && <Alert>{why}</Alert>}
    </form>
  )
}
