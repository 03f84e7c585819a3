import { basePaths, operations } from '../../actors/operations/registry.ts'
import { tokenPaths } from '../../actors/operations/token-paths.ts'
import { Problem } from '../../errors.ts'

/** Below `/v1`, and spoken by other programs than clients of inference. */
const otherFamilies = /^\/v1\/(?:admin|billing|node-agent|nodes|public|peer|receipts|settlement)(?:\/|$)/
const belowBase = /^\/v1(?:\/|$)/

/**
 * The answer for a client with a wrong base URL, the likeliest of all mistakes (§28); null if the path does not belong
 * to inference. The answer does not repeat the path, which could contain anything.
 */
export function missedInference(path: string, baseUrl: string): Problem | null {
  const known = [...operations.map(({ path: known }) => known), ...Object.values(tokenPaths), '/models']
  const meant = known.find((end) => path.endsWith(end))
  if (otherFamilies.test(path) || (meant === undefined && !belowBase.test(path))) return null
  const base = baseUrl + basePaths[1]
  const detail =
    meant === undefined
      ? `There is no such path. The base URL of this gateway is ${base}; ${baseUrl}/docs lists what it serves.`
      : `There is no such path, but ${base}${meant} is there: the base URL of this gateway is ${base}.`
  return new Problem('route_not_found', { detail })
}
