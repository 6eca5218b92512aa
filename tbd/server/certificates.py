"""A certificate of one's own for processes of one machine that must know each other."""

import datetime
import ipaddress

YEARS = 100  # nobody else trusts it, so nobody is served by its running out


def own_authority(name: str) -> dict[str, str]:
    """An authority and one certificate by it for both ends, as PEM by file name. The authority's key is forgotten."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (f"{name} authority", name)
    )
    now = datetime.datetime.now(datetime.UTC)

    def certificate(who: x509.Name, public: ec.EllipticCurvePublicKey, authority: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(who)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )

    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    top = certificate(issuer, authority_key.public_key(), True).sign(authority_key, hashes.SHA256())
    leaf = certificate(subject, key.public_key(), False).add_extension(names, False).add_extension(uses, False)
    pem = serialization.Encoding.PEM
    return {
        "authority.pem": top.public_bytes(pem).decode(),
        "certificate.pem": leaf.sign(authority_key, hashes.SHA256()).public_bytes(pem).decode(),
        "key.pem": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
    }
