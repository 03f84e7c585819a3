import { useEffect, useState } from 'preact/hooks'

/** `#<view>/<id>?<query>`: what is shown stands in the address, so that it can be kept and sent. */
export interface Place {
  readonly view: string
  readonly id: string | null
  /** What stands behind the id. */
  readonly below: string | null
  readonly query: URLSearchParams
}

export function placeOf(hash: string): Place {
  // A link of the navigation begins with `#/`: what begins with `#` alone is taken for a place on this page.
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [view = '', id = '', below = ''] = path.split('/')
  return { view, id: id || null, below: below || null, query: new URLSearchParams(query) }
}

/** Empty values are left out. */
export function addressOf(view: string, id: string | null, values: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== '')).toString()
  return `#${view}${id === null ? '' : `/${id}`}${query === '' ? '' : `?${query}`}`
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const changed = () => setHash(location.hash)
    // The address may have moved on since this was drawn, before anybody listened.
    changed()
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return placeOf(hash)
}
