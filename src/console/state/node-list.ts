/** As many as the gateway lists. */
export const nodesMax = 5_000
export const nodesPath = `/v1/admin/nodes?limit=${nodesMax}`
