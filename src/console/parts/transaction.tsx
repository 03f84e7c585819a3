import type { PublicSettlement } from '../../protocol/wire/money/money.ts'
import { useLoad } from '../state/load.ts'
import { Id } from './small.tsx'

/** Only what a browser may open without harm becomes a link. */
function explorerLink(base: string, hash: string): string | null {
  return /^https?:\/\//.test(base) && /^0x[0-9a-f]{64}$/i.test(hash) ? `${base.replace(/\/+$/, '')}/tx/${hash}` : null
}

/** Base address of the explorer that the operator named; empty until it is read, and where the operator named none. */
export function useExplorer(): string {
  const [settlement] = useLoad<PublicSettlement>('/v1/public/settlement?limit=1')
  return settlement.kind === 'ready' ? settlement.data.payout_settlement.explorer_url : ''
}

export function Transaction({ hash, explorer }: { hash: string; explorer: string }) {
  const link = explorerLink(explorer, hash)
  if (link === null) return <Id id={hash} />
  return (
    <a href={link} target="_blank" rel="noreferrer noopener">
      <Id id={hash} />
      <span class="visually-hidden"> in the explorer, in a new tab</span>
    </a>
  )
}

/** Where one alone is shown: it finds the explorer itself. */
export const OneTransaction = ({ hash }: { hash: string }) => <Transaction hash={hash} explorer={useExplorer()} />
