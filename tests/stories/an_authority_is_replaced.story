
A PKI appears.
  + Secret/pki-authority
  + Secret/pki-bundle
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True

Finished: everything that was applied.

The user writes authorityGeneration: 2.
  ~ Secret/pki-authority
  ~ Secret/pki-bundle
  RotationReady: True, Trusting, a new authority is trusted beside the one that signs, before certificates are by it
  Ready: True

A client runs that started before.
  RotationReady: True, Trusting, a new authority is trusted beside the one that signs, before certificates are by it; waits for nova/nova (nova-api-1)
  Ready: True

It was made anew since.
  ~ Secret/pki-authority
  RotationReady: True, Renewing, certificates are by the new authority; the one before is trusted until no server shows one by it
  Ready: True

No Secret holds a certificate by the old authority, and no port shows one.
  ~ Secret/pki-authority
  ~ Secret/pki-bundle
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True

Nothing changes.
  RotationReady: True, Ready, the authority is replaced from 2032-08-30 07:40 UTC on
  Ready: True
