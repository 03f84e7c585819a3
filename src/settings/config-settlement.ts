interface SettlementSettings {
  readonly SVC_CHAIN_RPC_URL: string | null
  readonly SVC_CHAIN_ID: number
  readonly SVC_CHAIN_KEY: string | null
  readonly SVC_CHAIN_CONTRACT: string | null
  readonly SVC_PUBLIC_RPC_URL: string | null
  readonly SVC_CHAIN_EXPLORER: string | null
  readonly SVC_MARKETPLACE_SEGMENT: string
}

function urlOf(text: string): URL | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : null
  } catch {
    return null
  }
}

/** RPC URLs often contain a provider's key, and this URL is published (§14). */
function publicRpcFault({ SVC_PUBLIC_RPC_URL: text, SVC_CHAIN_RPC_URL: own }: SettlementSettings): string | null {
  if (text === null) return null
  const url = urlOf(text)
  if (url === null) return 'SVC_PUBLIC_RPC_URL must be an http or https URL'
  if (url.username !== '' || url.password !== '' || url.search !== '') {
    return 'SVC_PUBLIC_RPC_URL is published and must have no user, password or query'
  }
  const same = own !== null && urlOf(own)?.href === url.href
  return same ? 'SVC_PUBLIC_RPC_URL is published and must not be SVC_CHAIN_RPC_URL' : null
}

/** Faults of the settlement settings together. No fault shows a value. */
export function settlementFaults(config: SettlementSettings): readonly string[] {
  const { SVC_CHAIN_RPC_URL: rpc, SVC_CHAIN_KEY: key, SVC_CHAIN_CONTRACT: contract } = config
  const given = [rpc !== null, config.SVC_CHAIN_ID > 0, key !== null, contract !== null]
  const faults = [
    given.includes(true) && given.includes(false)
      ? 'SVC_CHAIN_RPC_URL, SVC_CHAIN_ID, SVC_CHAIN_KEY and SVC_CHAIN_CONTRACT must be set together'
      : null,
    rpc !== null && urlOf(rpc) === null ? 'SVC_CHAIN_RPC_URL must be an http or https URL' : null,
    key !== null && !/^0x[0-9a-fA-F]{64}$/.test(key) ? 'SVC_CHAIN_KEY must be 0x and 64 hex digits' : null,
    contract !== null && !/^0x[0-9a-fA-F]{40}$/.test(contract) ? 'SVC_CHAIN_CONTRACT must be an address' : null,
    publicRpcFault(config),
    config.SVC_CHAIN_EXPLORER !== null && urlOf(config.SVC_CHAIN_EXPLORER) === null
      ? 'SVC_CHAIN_EXPLORER must be an http or https URL'
      : null,
    /^[a-z0-9][a-z0-9-]{0,63}$/.test(config.SVC_MARKETPLACE_SEGMENT)
      ? null
      : 'SVC_MARKETPLACE_SEGMENT must be lower-case letters, digits and -',
  ]
  return faults.filter((fault) => fault !== null)
}
